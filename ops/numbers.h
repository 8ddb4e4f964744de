// numbers.h - number code that must give the same bits on every target.
#ifndef DS4_OPS_NUMBERS_H
#define DS4_OPS_NUMBERS_H
#endif // DS4_OPS_NUMBERS_H
