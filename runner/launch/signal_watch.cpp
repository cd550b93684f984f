// Signals through signalfd.
#include "runner/launch/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ddprun {

namespace {

bool ignored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (!ignored(signal)) sigaddset(&watched, signal);
  }
  sigprocmask(SIG_BLOCK, &watched, &previous_mask_);
  fd_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

SignalWatch::~SignalWatch() {
  if (fd_ >= 0) close(fd_);
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

SignalWatch::Taken SignalWatch::take() {
  Taken taken;
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1) taken.save = true;
    if (signal != SIGUSR1 && signal != SIGCHLD) taken.stop = signal;
  }
  return taken;
}

void SignalWatch::leave_to_parent() {
  close(fd_);
  fd_ = -1;
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGUSR1, SIG_IGN);  // until a run is there that saves
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

}  // namespace ddprun
