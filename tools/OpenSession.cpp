// OpenSession.cpp - see OpenSession.h.
#include "tools/OpenSession.h"

#include "runtime/Admission.h"
#include "tools/Terminal.h"

#include <fmt/format.h>

namespace ds4 {

/// Says how the bundle reads tensors of type 107, if the file has some.
static void printFp2Reading(const Plan &plan, const Gguf &file) {
  size_t tensors = 0;
  std::string_view reading;
  for (const WeightDesc &weight : plan.weights) {
    const GgufTensor *tensor = file.findTensor(weight.name);
    if (!tensor ||
        tensor->typeId != weightFormatInfo(WeightFormat::q2_0_rocmfp2).typeId)
      continue;
    ++tensors;
    reading = fp2ReadingName(weight.format);
  }
  if (tensors)
    fmt::print(stderr,
               "ds4run: {} tensors of type 107 are read as {} (ds4c --fp2)\n",
               tensors, reading);
}

/// From a Gguf or a WeightSource.
template <typename Source>
static Result<std::unique_ptr<Session>>
open(Bundle bundle, const Source &source, std::unique_ptr<Device> device,
     const RunOptions &options) {
  SessionOptions sessionOptions;
  sessionOptions.threads = options.threads;
  sessionOptions.prefillChunk = options.prefillChunk;
  sessionOptions.load.cancelled = interrupted;
  const MemoryNeed need =
      memoryNeed(bundle.plan, sessionOptions.load.stagingBytes());
  fmt::print(stderr, "memory {}: {}\n", formatBytes(need.total()),
             memoryText(need));
  std::unique_ptr<Session> session;
  {
    ProgressBar bar("loading");
    sessionOptions.load.progress = [&](uint64_t done, uint64_t total) {
      bar.update(done, total,
                 fmt::format("{} of {}, {:.2f} GB/s", formatBytes(done),
                             formatBytes(total),
                             static_cast<double>(done) / 1e9 / bar.seconds()));
    };
    sessionOptions.build.threads = options.threads;
    sessionOptions.build.progress = [&](size_t done, size_t total) {
      bar.update(done, total,
                 fmt::format("compiling {}/{} kernels", done, total));
    };
    DS4_ASSIGN(session, Session::open(std::move(bundle), source,
                                      std::move(device), sessionOptions));
  }
  const LoadStats &stats = session->loadStats();
  fmt::print(stderr,
             "loaded {} in {:.2f} s, {:.2f} GB/s{}{}; peak host memory {}\n",
             formatBytes(stats.bytes), stats.seconds,
             static_cast<double>(stats.bytes) / 1e9 / stats.seconds,
             stats.direct ? ", past the page cache" : "",
             stats.packedByDevice ? ", packed by the device" : "",
             formatBytes(peakMemory()));
  return session;
}

Result<std::unique_ptr<Session>> openSession(Bundle bundle, const Gguf &file,
                                             const RunOptions &options) {
  DS4_ASSIGN(std::unique_ptr<Device> device,
             createDevice(options.device, options.threads));
  return openSession(std::move(bundle), file, std::move(device), options);
}

Result<std::unique_ptr<Session>> openSession(Bundle bundle, const Gguf &file,
                                             std::unique_ptr<Device> device,
                                             const RunOptions &options) {
  printFp2Reading(bundle.plan, file);
  return open(std::move(bundle), file, std::move(device), options);
}

Result<std::unique_ptr<Session>> openSession(Bundle bundle,
                                             const WeightSource &source,
                                             std::unique_ptr<Device> device,
                                             const RunOptions &options) {
  return open(std::move(bundle), source, std::move(device), options);
}

} // namespace ds4
