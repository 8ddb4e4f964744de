// Terminal.cpp - bars are drawn with carriage returns; the signal handler does
// only what may be done in one.
#include "tools/Terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace ds4 {

using Clock = std::chrono::steady_clock;

ProgressBar::ProgressBar(std::string label)
    : label(std::move(label)), terminal(::isatty(STDERR_FILENO)),
      begin(Clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drawn)
    fmt::print(stderr, "\r\033[K");
}

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void ProgressBar::update(uint64_t done, uint64_t total, std::string_view note) {
  constexpr uint64_t kCells = 24;
  if (!terminal || total == 0)
    return;
  Clock::time_point now = Clock::now();
  if (drawn && done < total && now - lastDraw < std::chrono::milliseconds(100))
    return;
  lastDraw = now;
  drawn = true;
  uint64_t filled = std::min(done, total) * kCells / total;
  fmt::print(stderr, "\r\033[K{} [{:=<{}}{:{}}] {}", label, "", filled, "",
             kCells - filled, note);
  std::fflush(stderr);
}

static volatile std::sig_atomic_t interruptFlag = 0;

static void onInterrupt(int) {
  if (interruptFlag)
    ::_exit(130);
  interruptFlag = 1;
}

void installInterruptHandler() {
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  // No SA_RESTART: waiting for a line ends too.
  ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return interruptFlag != 0; }
void clearInterrupt() { interruptFlag = 0; }

} // namespace ds4
