// Terminal.h - what ds4run shows besides text: progress bars, on a terminal
// only, and Ctrl-C.
#ifndef DS4_TOOLS_TERMINAL_H
#define DS4_TOOLS_TERMINAL_H

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ds4 {

/// A bar on standard error, redrawn at most ten times a second; silent where
/// standard error is no terminal.
class ProgressBar {
public:
  explicit ProgressBar(std::string label);
  /// Erases the bar.
  ~ProgressBar();

  /// `done` of `total`, and a text to its right.
  void update(uint64_t done, uint64_t total, std::string_view note);

  double seconds() const;

private:
  std::string label;
  bool terminal;
  bool drawn = false;
  std::chrono::steady_clock::time_point begin, lastDraw;
};

/// Makes the first SIGINT set a flag and the second exit with code 130.
void installInterruptHandler();
/// Whether SIGINT came since the last clearInterrupt().
bool interrupted();
void clearInterrupt();

} // namespace ds4

#endif // DS4_TOOLS_TERMINAL_H
