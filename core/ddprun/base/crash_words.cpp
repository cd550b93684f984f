// A handler that only writes, and ends the process.
#include "ddprun/base/crash_words.h"

#include <unistd.h>

namespace ddprun {

namespace {

// What the handler reads.
std::string words;
int exit_status = 0;

void say_and_end(int) {
  if (::write(STDERR_FILENO, words.data(), words.size()) < 0) ::_exit(exit_status);
  ::_exit(exit_status);
}

}  // namespace

CrashWords::CrashWords(const std::string& text, int status)
    : outer_text_(words), outer_status_(exit_status) {
  words = text;
  exit_status = status;
  struct sigaction action = {};
  action.sa_handler = say_and_end;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

CrashWords::~CrashWords() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  words = outer_text_;
  exit_status = outer_status_;
}

}  // namespace ddprun
