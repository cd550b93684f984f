// The one process of `ddprun verify`, which does single steps of a run once more.
#pragma once

#include <memory>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training_comparison/verify_rank.h"

namespace ddprun {

/// One step of a run, as rank 0 has it. Flat tensors, float32.
struct RunStep {
  std::int64_t index = 0;
  at::Tensor before = {};     ///< the parameters before the step
  at::Tensor gradients = {};  ///< the mean over the ranks; undefined: not known
  at::Tensor after = {};      ///< the parameters after it
  bool skipped = false;       ///< gradients overflowed
};

/// Trains on the whole global batch in one forward, by PyTorch's own operators: other kernels,
/// other matrix shapes, other orders of summation, so that nothing but the mathematics is shared.
class OneProcess {
 public:
  /// `device` outlives this object.
  OneProcess(const Experiment& experiment, const PluginRegistry& registry, Device& device);

  /// Does the step from the run's parameters, laid out as `layout`. The update takes the run's
  /// gradients, so the moments stay those of the run. Sets the step's loss_one_process and
  /// differences.
  void repeat(const RunStep& run, const ParameterLayout& layout, VerifiedStep& out);

  /// Of each parameter over all steps, in the order of the buffers.
  const std::vector<Differences>& parameters() const { return parameters_; }

 private:
  void enter_gradients(const RunStep& step, const at::Tensor& own, Differences& out);
  void enter_updates(const RunStep& step, const at::Tensor& own, Differences& out);

  const Experiment whole_;
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Differences> parameters_;
};

}  // namespace ddprun
