// Words for a crash that cannot be prevented, while something dangerous is done.
#pragma once

#include <signal.h>

#include <array>
#include <string>

namespace ddprun {

/// While it lives, a signal that a crash raises writes `text` to stderr and ends the process with
/// `status`. They nest.
class CrashWords {
 public:
  CrashWords(const std::string& text, int status);
  ~CrashWords();
  CrashWords(const CrashWords&) = delete;
  CrashWords& operator=(const CrashWords&) = delete;

 private:
  static constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
  std::array<struct sigaction, kSignals.size()> before_ = {};
  const std::string outer_text_;
  const int outer_status_;
};

}  // namespace ddprun
