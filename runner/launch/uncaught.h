// An exception that nobody catches gets its words, too: gloo throws on threads of its own.
#pragma once

#include <functional>

#include "runner/launch/rank_process.h"

namespace ddprun {

/// From now on an exception that leaves a thread of this process is handed to `say`, on that
/// thread, and so is a call of exit() where the process is at its limit of memory. Then the process
/// ends with kExitFailed.
void say_uncaught(std::function<void(const RankError&)> say);

/// Ends this process in the same way, for `error`. Any thread may call it.
[[noreturn]] void say_and_end(const RankError& error);

}  // namespace ddprun
