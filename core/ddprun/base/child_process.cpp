// fork, a pipe, a deadline, and the words for how a child ended.
#include "ddprun/base/child_process.h"

#include <c10/util/ScopeExit.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

#include "ddprun/base/clock.h"
#include "ddprun/base/descriptor.h"

namespace ddprun {

namespace {

/// As long as what it returns lives, children that ended stay until they are waited for, though
/// this process may have inherited that SIGCHLD is ignored, which reaps them before. A handler of
/// the program's own stays, and hears of the child.
[[nodiscard]] auto keep_children() {
  struct sigaction before = {};
  ::sigaction(SIGCHLD, nullptr, &before);
  const bool reaps = before.sa_handler == SIG_IGN || (before.sa_flags & SA_NOCLDWAIT) != 0;
  if (reaps) std::signal(SIGCHLD, SIG_DFL);
  return c10::make_scope_exit([before, reaps] {
    if (reaps) ::sigaction(SIGCHLD, &before, nullptr);
  });
}

/// The exit status of a child whose body returned; unlikely to be that of one that called exit().
constexpr int kReturned = 113;

[[noreturn]] void child_main(const std::function<void(int fd)>& body, pid_t parent, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl
  ::setpgid(0, 0);                        // with the processes that it may start
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  body(fd);
  ::_exit(kReturned);  // the parent's static objects are not this process's to destroy
}

bool has_ended(pid_t pid) {
  siginfo_t info = {};
  const int failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return failed == 0 ? info.si_pid == pid : errno == ECHILD;  // somebody else waited for it
}

/// What stands in the pipe now. Returns whether it may get more.
bool read_available(int fd, std::string& text) {
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return n < 0;
}

/// What the child writes until it ends, or writes nothing for so long. The end of the pipe
/// says nothing: a process that the child started may hold it open.
std::string read_until_end(int fd, pid_t pid, std::int64_t limit_ns, bool& ended) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string text;
  bool open = true;
  std::int64_t since_ns = now_ns();
  for (ended = false; !ended && now_ns() - since_ns < limit_ns;) {
    pollfd ready = {.fd = open ? fd : -1, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, open ? 10 : 1);
    ended = has_ended(pid);  // before the pipe is read: nothing comes after it
    const std::size_t before = text.size();
    open = open && read_available(fd, text);
    if (text.size() > before) since_ns = now_ns();
  }
  return text;
}

std::string death_of(int status, bool in_time, double limit_s) {
  if (!in_time) return fmt::format("no end within {:g} s", limit_s);
  if (WIFSIGNALED(status)) return "killed by signal " + signal_text(WTERMSIG(status));
  if (WEXITSTATUS(status) == kReturned) return {};
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

}  // namespace

ChildReport run_in_child(const std::function<void(int fd)>& body, double limit_s) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const Descriptor reading(ends[0]);
  std::optional<Descriptor> writing(std::in_place, ends[1]);
  const pid_t parent = ::getpid();
  const auto kept = keep_children();
  std::fflush(nullptr);  // else the child would hold the parent's buffered text
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) child_main(body, parent, writing->get());
  writing.reset();
  bool in_time = false;
  const auto limit_ns = static_cast<std::int64_t>(limit_s * 1e9);
  ChildReport report{read_until_end(reading.get(), pid, limit_ns, in_time), {}};
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);  // it may have no group yet, or another
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  report.death = death_of(status, in_time, limit_s);
  return report;
}

std::string signal_text(int signal) { return fmt::format("{} ({})", signal, ::strsignal(signal)); }

int write_all(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(fd, text.data() + sent, text.size() - sent);
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace ddprun
