// elements.h - which elements of a row a thread of an elementwise kernel does.
// Neighbouring threads do neighbouring elements. Constants that codegen
// prints: kThreads, kItems (elements a thread).
#ifndef DS4_OPS_ELEMENTS_H
#define DS4_OPS_ELEMENTS_H

/// Number inside the row of this thread's element `item`, item < kItems.
DS4_DEVICE u32 element_of(u32 item) {
  return (block_x() * kItems + item) * kThreads + thread_x();
}

#endif // DS4_OPS_ELEMENTS_H
