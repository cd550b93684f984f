// The checks of the process: that steps have all of their work, that their clock is the kernel's,
// and that it computes as its row says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Right after a step ("rest_after_steps"): that no thread of this process works on while nothing
/// is asked of it. It takes some milliseconds; work that ends earlier is not seen. All ranks call
/// it, each a process of its own.
Check check_rest(ProcessGroup& group);

struct ProcessState {
  std::vector<int> cores;
  int threads = 0;
  std::array<void (*)(int), 2> handlers = {};  ///< of SIGTERM and SIGUSR1, which end and save
};
/// What the calling thread computes on now.
ProcessState process_state();

/// How that differs from what the row says, or what a plugin can set for the process, or for its
/// training thread, from what it was before one was loaded; empty: it does not. On the training
/// thread.
std::string find_changed(const ProcessState& told);
/// The same between steps, beside `within`, what was found within one ("process_as_told"). All
/// ranks call it.
Check check_process(ProcessGroup& group, const ProcessState& told, const std::string& within);

/// Compares how long each step took by the clock of all times and by the kernel itself.
class ClockProof {
 public:
  void begin_step();
  void end_step();
  /// After the last step ("clock_agrees"). All ranks call it.
  Check finish(ProcessGroup& group) const;

 private:
  std::int64_t begin_ns_ = 0, begin_ahead_ns_ = 0;
  std::int64_t steps_ = 0, steps_ns_ = 0;
  std::int64_t off_ns_ = 0;  // from the kernel's clock, sum over the steps
};

}  // namespace ddprun
