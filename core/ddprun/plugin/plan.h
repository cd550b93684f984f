// What a strategy says of itself before it runs: what travels in a step, and what each rank keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/comm/store/collective_kind.h"
#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// When a planned collective is issued.
enum class PlannedIn : std::uint8_t {
  step,              ///< once a step
  each_micro_batch,  ///< once in each forward and backward
  update,            ///< once in update(), which train.measure may leave out
};

struct PlannedCollective {
  CollectiveKind kind;
  std::int64_t bytes;  ///< of the whole tensor: an all-gather's output, a reduce-scatter's input
  PlannedIn in = PlannedIn::step;
};

/// What a strategy promises of the ranks' gradients and parameters. The proof holds it to that.
enum class Agreement : std::uint8_t {
  exact,     ///< each gradient becomes the mean, so parameters stay equal on all ranks
  lossy,     ///< gradients become equal on all ranks, and the mean but for the error feedback
  periodic,  ///< gradients stay each rank's own; parameters are equal from time to time
  none,      ///< a control experiment, whose parameters differ between ranks
};

/// The plan of one rank.
struct Plan {
  std::vector<PlannedCollective> collectives = {};  ///< each run compares with what ran
  /// The ranks of each set of slices own every element together, each once, or all own everything.
  BufferHolding holding = {};
  Agreement agreement = Agreement::exact;
  bool reports_ranges = false;  ///< by range_ready(), which `optimizer.overlap` needs

  void add(CollectiveKind kind, std::int64_t bytes, PlannedIn in = PlannedIn::step) {
    collectives.push_back({kind, bytes, in});
  }
};

}  // namespace ddprun
