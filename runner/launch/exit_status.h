// The exit statuses of the command and of its ranks.
#pragma once

namespace ddprun {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;    ///< a run failed; `compare`: nobody can say
inline constexpr int kExitUsage = 2;     ///< bad usage or configuration; nothing ran
inline constexpr int kExitSlower = 3;    ///< `compare`: a row is slower than the threshold
inline constexpr int kExitParts = 3;     ///< `diff`: an experiment parts from the first
inline constexpr int kExitSignal = 128;  ///< plus the signal: 130 after Ctrl-C

}  // namespace ddprun
