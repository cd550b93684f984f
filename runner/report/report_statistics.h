// From the samples of all ranks to the figures of a report; docs/measurement.md gives the formula
// of each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ddprun/measure/statistics.h"
#include "ddprun/train/rank_result.h"

namespace ddprun {

/// How a step's value comes from its ranks' values.
enum class OverRanks { slowest, mean, least };

/// One timed column of a report.
struct TimeColumn {
  const char* name;
  double StepSample::*value;
  OverRanks over_ranks;
};

inline constexpr std::array<TimeColumn, 8> kTimeColumns = {{
    {"step_ms", &StepSample::step_ms, OverRanks::slowest},
    {"forward_ms", &StepSample::forward_ms, OverRanks::mean},
    {"backward_ms", &StepSample::backward_ms, OverRanks::mean},
    {"exposed_ms", &StepSample::exposed_ms, OverRanks::least},
    {"optimizer_ms", &StepSample::optimizer_ms, OverRanks::mean},
    {"communication_ms", &StepSample::communication_ms, OverRanks::mean},
    {"overlapped_ms", &StepSample::overlapped_ms, OverRanks::mean},
    {"launch_delay_ms", &StepSample::launch_delay_ms, OverRanks::mean},
}};

/// Over the measured steps; warm-up steps count in the losses and in skipped_steps alone.
struct RunStatistics {
  std::array<Summary, kTimeColumns.size()> columns;  ///< of kTimeColumns, in their order
  /// Of each step: mean over the ranks of exposed_ms minus the least, i.e. the time for which ranks
  /// waited because another one computed longer. exposed_ms itself is the least.
  Summary skew;
  std::vector<Summary> rank_step_ms;  ///< each rank's own steps
  double exposed_share = 0;           ///< median exposed_ms / median step_ms
  double overlapped_share =
      0;  ///< sum of overlapped_ms / sum of communication_ms; 0 without communication
  double tokens_per_s = 0;  ///< of all ranks, at the median step
  double samples_per_s = 0;
  double bytes_per_step = 0;        ///< payload, one rank, mean
  double collectives_per_step = 0;  ///< one rank, mean
  double loss_first = 0;            ///< mean over ranks, first step of all
  double loss_last = 0;             ///< mean over ranks, last step
  std::int64_t skipped_steps = 0;   ///< of all steps: on some rank parameters were not updated
  double first_step_done_s = 0;     ///< launch to the first completed step, slowest rank

  const Summary& step_ms() const { return columns[0]; }
  const Summary& forward_ms() const { return columns[1]; }
  const Summary& backward_ms() const { return columns[2]; }
  const Summary& exposed_ms() const { return columns[3]; }
  const Summary& optimizer_ms() const { return columns[4]; }
  const Summary& communication_ms() const { return columns[5]; }
  const Summary& overlapped_ms() const { return columns[6]; }
  const Summary& launch_delay_ms() const { return columns[7]; }
  const Summary& skew_ms() const { return skew; }
};

/// `global_batch`: sequences per step; `context_length`: tokens in each. Throws
/// std::invalid_argument if the ranks do not have the same steps, or none was measured.
RunStatistics compute_statistics(const std::vector<RankResult>& ranks, std::int64_t global_batch,
                                 std::int64_t context_length);

}  // namespace ddprun
