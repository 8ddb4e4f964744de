// ParallelWork.cpp - see ParallelWork.h.
#include "runtime/ParallelWork.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ds4 {

Status
workInParallel(unsigned threads, size_t count,
               const std::function<Status(size_t)> &work,
               const std::function<void(size_t done, size_t total)> &progress) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t done = 0, failedItem = count;
  std::optional<Error> failure;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      Status status = work(i);
      std::lock_guard lock(mutex);
      if (!status) {
        if (i < failedItem) {
          failedItem = i;
          failure = status.error();
        }
        next = count;
        return;
      }
      if (progress)
        progress(++done, count);
    }
  };
  if (threads == 0)
    threads = std::thread::hardware_concurrency();
  const size_t most = std::max<size_t>(count, 1);
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::clamp<size_t>(threads, 1, most); ++i)
    pool.emplace_back(run);
  run();
  for (std::thread &thread : pool)
    thread.join();
  if (failure)
    return *failure;
  return Status::ok();
}

} // namespace ds4
