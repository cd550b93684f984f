// Does something in a process of its own, whatever may happen to it there.
#pragma once

#include <functional>
#include <string>

namespace ddprun {

struct ChildReport {
  std::string text;   ///< what the child wrote
  std::string death;  ///< how it ended, if not by returning from `body`: "killed by signal 11 ..."
};

/// Forks this process, runs `body` there with the descriptor to which it writes what it has to say,
/// and waits until it ends. One that has not ended `limit_s` after it began or last wrote is
/// killed, and so is what it started and left. Nothing else that it prints is seen. Only the
/// calling thread goes on in the child: `body` must not need another. Throws std::system_error if
/// the system has no process or pipe left.
ChildReport run_in_child(const std::function<void(int fd)>& body, double limit_s);

/// "9 (Killed)"
std::string signal_text(int signal);

/// Writes all of `text`, or what the reader takes of it. Returns 0, or the error number of what
/// failed.
int write_all(int fd, const std::string& text);

}  // namespace ddprun
