// ChromeTrace.cpp - events are written as they come: a long run must not keep
// them in memory. Labels are op mnemonics and symbols, which need no escaping.
#include "tools/ChromeTrace.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ds4 {

Result<ChromeTrace> ChromeTrace::create(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return ioError(
        fmt::format("cannot create {}: {}", path, std::strerror(errno)));
  fmt::print(file, "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
                   "{{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", "
                   "\"args\": {{\"name\": \"ds4run\"}}}}");
  return ChromeTrace(path, file);
}

void ChromeTrace::attach(Session &session) {
  session.hooks.timing = [this](const Function &function, const Launch &launch,
                                const Step &step, int64_t begin, int64_t end) {
    add(function, launch, step, begin, end);
  };
}

void ChromeTrace::add(const Function &function, const Launch &launch,
                      const Step &step, int64_t beginNs, int64_t endNs) {
  if (originNs < 0)
    originNs = beginNs;
  fmt::print(file.get(),
             ",\n{{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": \"{}\", "
             "\"cat\": \"{}\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": "
             "{{\"op\": \"{}\", \"layer\": {}, \"kernel\": \"{}\", "
             "\"position\": {}, \"tokens\": {}}}}}",
             launch.label, function.name,
             static_cast<double>(beginNs - originNs) / 1e3,
             static_cast<double>(endNs - beginNs) / 1e3, launch.label,
             launch.layer, launch.kernel, step.start, step.count);
}

Status ChromeTrace::finish() {
  fmt::print(file.get(), "\n]}}\n");
  bool failed = std::ferror(file.get());
  failed |= std::fclose(file.release()) != 0;
  if (failed)
    return ioError(
        fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return Status::ok();
}

} // namespace ds4
