// ReadBandwidth.h - how fast a device reads its memory: what the speed of
// decoding is measured against.
#ifndef DS4_TOOLS_READBANDWIDTH_H
#define DS4_TOOLS_READBANDWIDTH_H

#include "runtime/Device.h"

namespace ds4 {

/// Bytes a second, the best of some runs over more than the caches hold: a
/// kernel compiled here, or on the CPU `threads` threads (0: one a core). To be
/// called before a code object is loaded. 0 where no kernel can be compiled for
/// the device.
Result<double> readBandwidth(Device &device, unsigned threads);

} // namespace ds4

#endif // DS4_TOOLS_READBANDWIDTH_H
