// ddprun, the command.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <exception>
#include <string_view>

#include "ddprun/memory/huge_heap.h"
#include "runner/command_line/command_line.h"

namespace {

using ddprun::kExitFailed;
using ddprun::kExitUsage;

[[noreturn]] void end_with(std::string_view text, int status) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(status);
  _exit(status);
}

/// LibTorch's libraries set themselves up before main(), where nothing of ours could catch what
/// they throw. It is want of memory.
void say_that_memory_ran_out() {
  end_with(
      "error: ddprun cannot start: memory ran out while LibTorch was set up\n"
      "  expected: 1 GiB of address space at least\n"
      "  hint: `ulimit -v` says what a process may have\n",
      kExitFailed);
}

std::terminate_handler usual_terminate = nullptr;

/// A run of the quickstart crashes with 64 KiB, and does not with 128.
constexpr rlim_t kLeastStack = 512 << 10;

/// The loader calls this before it sets up any library. MKL, which is one of them, ends a process
/// whose folder is gone, with words about a library.
void watch_start(int, char**, char**) {
  // Until there is a run that saves. A handler, as programs that are started would inherit SIG_IGN.
  if (std::signal(SIGUSR1, [](int) {}) == SIG_IGN) std::signal(SIGUSR1, SIG_IGN);
  usual_terminate = std::set_terminate(say_that_memory_ran_out);
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) == nullptr && errno == ENOENT) {
    end_with(
        "error: ddprun cannot start: the current folder is not there any more\n"
        "  hint: it was removed after this shell went there: cd to another\n",
        kExitUsage);
  }
  rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kLeastStack) {
    end_with(
        "error: ddprun cannot start: the stack that a thread may have is too small\n"
        "  expected: 512 KiB at least\n"
        "  hint: `ulimit -s` says what a thread may have; 8192 is usual\n",
        kExitFailed);
  }
  ddprun::prepare_heap_for_libtorch();
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**,
                                                                   char**) = watch_start;

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(usual_terminate);
  ddprun::use_heap_as_usual();
  // A standard stream that the caller closed would be the number of the next file that is opened.
  // What is written to one of these is an error, as it would be without.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
  // A limit on files is a failure of a write, which is said where it happens. Its signal would end
  // this process, and rows that are done with it.
  std::signal(SIGXFSZ, SIG_IGN);
  // An inherited SIG_IGN would reap children before anybody has read how they ended.
  std::signal(SIGCHLD, SIG_DFL);
  // Nothing of a plugin is destroyed, as its code may be at fault: the result is there.
  _exit(ddprun::run_command_line(argc, argv));
}
