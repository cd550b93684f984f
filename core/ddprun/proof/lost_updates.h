// Updates that rounding loses: weights that a step left as they were, although it had to move them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/lost_updates.h"

namespace ddprun {

/// Counts them in the steps that are looked at, of what the optimizer updates (masters, where there
/// are some). A step has to move a weight whose gradient or first moment is not zero, and whose
/// learning rate is not. Of a tensor of more than 4,096 elements it looks at every 31st, so that it
/// does not show in the memory of a step; the same in each step, whichever rank owns them. Each
/// weight is counted on one rank. Training thread.
class LostUpdateCounter {
 public:
  /// `data_parallel` outlives this object, and was made with `optimizer`.
  LostUpdateCounter(DataParallel& data_parallel, const OptimizerConfig& optimizer);

  /// Before the step.
  void begin_step();
  /// When backward has synchronized, before Strategy::update().
  void keep_gradients();
  /// After a step that was begun: the share of the whole model's updates that was lost, in percent.
  /// Nothing: no weight had to move. `updated`: false if this rank's step left the parameters to
  /// themselves or to others (skipped, learning rate 0, averaged). All ranks call it.
  std::optional<double> end_step(ProcessGroup& group, bool updated);

  /// Of each tensor that lost an update in the last of these steps; the largest share first. The
  /// same on all ranks.
  std::vector<LostUpdates> tensors() const;

 private:
  /// What this rank counts of one parameter.
  struct Part {
    int index;
    Range range;
    at::Tensor before = {}, gradients = {};  // where the gradient is not zero
  };

  std::int64_t stride(int index) const;
  /// Every stride-th element of the parameter, as far as it is in `of`, which belongs to the part.
  at::Tensor looked_at(const at::Tensor& of, const Part& part) const;
  /// Where a step has to move the weights.
  at::Tensor moves(const Part& part) const;
  /// Where all ranks own all, each counts some of the parameters.
  bool counted_here(int index) const;

  DataParallel& data_parallel_;
  std::vector<Part> parts_;
  std::vector<LostUpdates> tensors_;  // by parameter
};

}  // namespace ddprun
