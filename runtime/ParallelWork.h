// ParallelWork.h - independent items done by several threads.
#ifndef DS4_RUNTIME_PARALLELWORK_H
#define DS4_RUNTIME_PARALLELWORK_H

#include "runtime/Result.h"

#include <cstddef>
#include <functional>

namespace ds4 {

/// Calls work(i) for each i < count, on `threads` threads (0: one a core), and
/// `progress` after each item, one at a time. After a failure no new item is
/// begun. Error: that of the first item in order that failed, so that messages
/// do not depend on which thread was faster.
Status
workInParallel(unsigned threads, size_t count,
               const std::function<Status(size_t)> &work,
               const std::function<void(size_t done, size_t total)> &progress);

} // namespace ds4

#endif // DS4_RUNTIME_PARALLELWORK_H
