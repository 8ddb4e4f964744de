// common.h - everything that a unit includes once, before its parts. A unit may
// hold several bodies, each in a namespace with its own constants: headers that
// use constants (dot.h, elements.h, layouts/, decoders in weights/) have no
// include guard and are included in each part; those here know no constants.
#ifndef DS4_OPS_COMMON_H
#define DS4_OPS_COMMON_H

#include "prelude.h"
#include "state_rows.h"
#include "sums.h"
#include "weights/codes.h"
#include "weights/even_signs.h"
#include "weights/formats.h"
#include "weights/grids.h"
#include "weights/k_pairs.h"

#endif // DS4_OPS_COMMON_H
