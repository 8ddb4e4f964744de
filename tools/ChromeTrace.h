// ChromeTrace.h - the time of each launch in the format that chrome://tracing
// and Perfetto open.
#ifndef DS4_TOOLS_CHROMETRACE_H
#define DS4_TOOLS_CHROMETRACE_H

#include "runtime/Session.h"

#include <cstdio>
#include <memory>
#include <string>

namespace ds4 {

class ChromeTrace {
public:
  /// Creates or replaces the file.
  static Result<ChromeTrace> create(const std::string &path);

  /// Records every launch of `session`; this object must outlive the session's
  /// next forward().
  void attach(Session &session);

  /// Ends the file. Error: something could not be written.
  Status finish();

private:
  struct Closer {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  ChromeTrace(std::string path, std::FILE *file)
      : path(std::move(path)), file(file) {}
  void add(const Function &function, const Launch &launch, const Step &step,
           int64_t beginNs, int64_t endNs);

  std::string path;
  std::unique_ptr<std::FILE, Closer> file;
  int64_t originNs = -1; ///< time of the first event
};

} // namespace ds4

#endif // DS4_TOOLS_CHROMETRACE_H
