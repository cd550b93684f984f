// Forks one rank, which reports to its parent in JSON lines. An exception that nobody catches gets
// its words, too: gloo throws on threads of its own.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/comm/store/launch_board.h"
#include "ddprun/config/run_context.h"
#include "runner/launch/signal_watch.h"

namespace ddprun {

/// What a rank does. Rank 0's value is the run's result; those of others are ignored.
using RankBody = std::function<nlohmann::json(
    const RankInfo& info, const std::function<void(const Progress&)>& on_progress)>;

/// The kind of a rank's failure. `timeout`: it waited for another rank for too long. `peer_gone`:
/// another rank left. `comm`: the communication failed otherwise. `died` means that it left no
/// message of its own.
enum class FailureKind { config, plugin, comm, timeout, peer_gone, out_of_memory, other, died };
constexpr auto choice_names(FailureKind) {
  return std::array{"config",    "plugin",        "comm",  "timeout",
                    "peer_gone", "out_of_memory", "other", "died"};
}

/// Whether another rank may be at fault.
inline bool may_be_a_peers_fault(FailureKind kind) {
  return kind == FailureKind::comm || kind == FailureKind::timeout ||
         kind == FailureKind::peer_gone;
}

/// Why a rank failed.
struct RankError {
  FailureKind kind = FailureKind::other;
  ErrorText text;
};

/// Which rank failed, and why.
struct RankFailure {
  int rank = 0;
  RankError error;
};

/// Describes the exception in flight. Call it inside a catch block.
RankError describe_current_exception();

/// Why a rank ended that did not say so. `status`: waitpid()'s. `memory_killed`: the kernel has
/// killed a process for want of memory meanwhile.
RankError describe_exit(int status, bool memory_killed);

/// The error as the run's reason: "rank 1 failed: ...". If the error has no place of its own, its
/// place is its rank. `process` is the rank's process, named there unless it is 0.
std::string reason_of(const RankError& error, int rank, int world_size, pid_t process = 0);

/// How a rank reports to its parent.
enum class RankEvent { progress, log, error, result, done };
constexpr auto choice_names(RankEvent) {
  return std::array{"progress", "log", "error", "result", "done"};
}

/// The parent's handle of a forked rank.
struct ForkedRank {
  pid_t pid = -1;
  int fd = -1;  ///< read end, non-blocking: JSON lines, one event each
};

/// Forks a rank. The child runs `body` and never returns here. It dies with its parent
/// (PR_SET_PDEATHSIG) and leaves Ctrl-C to it. It writes nothing to stdout, logs through the pipe,
/// and attaches to `board`. `close_others`: called in the child, closes what the parent holds of
/// other ranks; it must not throw. Its events:
///   {"event":"progress","step":..,"steps":..,"figures":..}   rank 0, at most 10 a second
///   {"event":"log","level":..,"text":..}
///   {"event":"error","kind":..,"text":{"what":..,"where":..,..}}       then exit status 1
///   {"event":"result","result":..}                                     rank 0
///   {"event":"done"}                                                   then exit status 0
/// Throws std::system_error if the system has no process or pipe left.
ForkedRank fork_rank(const RankInfo& info, const RankBody& body, SignalWatch& signals,
                     LaunchBoard& board, const std::function<void()>& close_others);

/// From now on an exception that leaves a thread of this process is handed to `say`, on that
/// thread, and so is a call of exit() where the process is at its limit of memory. Then the process
/// ends with kExitFailed.
void say_uncaught(std::function<void(const RankError&)> say);

/// Ends this process in the same way, for `error`. Any thread may call it.
[[noreturn]] void say_and_end(const RankError& error);

}  // namespace ddprun
