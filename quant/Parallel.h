// Parallel.h - a loop over independent indices on several threads. Which
// thread runs an index is open; results must not depend on it.
#ifndef DS4_QUANT_PARALLEL_H
#define DS4_QUANT_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ds4::quant {

/// Calls body(i) for each i below `count` on up to `threads` threads.
template <typename Body>
void parallelFor(uint64_t count, unsigned threads, const Body &body) {
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t i = next++; i < count; i = next++)
      body(i);
  };
  std::vector<std::jthread> others;
  for (uint64_t t = 1; t < std::min<uint64_t>(threads, count); ++t)
    others.emplace_back(work);
  work();
}

} // namespace ds4::quant

#endif // DS4_QUANT_PARALLEL_H
