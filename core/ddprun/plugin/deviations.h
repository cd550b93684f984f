// What strategies tell the core whose steps differ from each other, or whose ranks do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// What a rank carries from step to step besides parameters and moments. The tensors stay the
/// strategy's, which writes them in place. The backwards of the proof are no steps: it puts back
/// what was in them.
struct CarriedState {
  std::vector<at::Tensor> tensors = {};
  /// With Agreement::lossy: (elements,), laid out as the gradients: what this rank has not sent of
  /// its gradients yet, and adds to the next (error feedback). Undefined: what is not sent is lost.
  at::Tensor error_feedback = {};
};

/// How a step of a periodic strategy leaves its ranks.
enum class Meeting : std::uint8_t {
  none,   // each has what its own optimizer made
  mean,   // all have the mean of what their optimizers made in this step
  outer,  // all have the same, which an optimizer of the strategy's own made of that mean
  mixed,  // each has a mean of its own of what some ranks' optimizers made: gossip
};

class Deviations {
 public:
  /// The collectives of the step that begins, in place of the plan's. For strategies whose steps
  /// differ (PyTorch's Reducer rebuilds its buckets). In setup() or UnitListener::before_forward().
  virtual void plan_anew(std::vector<PlannedCollective> collectives) = 0;
  /// In setup().
  virtual void carries(CarriedState state) = 0;
  /// With Agreement::periodic: in each update(), how it leaves the ranks. After setup() all have
  /// the same parameters.
  virtual void ranks_met(Meeting meeting) = 0;
  /// The same of gossip: `weights` (ranks,) is this rank's row of the mixing matrix W (Lian et al.,
  /// NeurIPS 2017, section 3). Its parameters are now the sum over ranks r of weights[r] times what
  /// r's optimizer made in this step. W is doubly stochastic, so the mean over all ranks stays.
  virtual void ranks_mixed(std::vector<double> weights) = 0;
  /// The model's own tensor, for code that is written against modules (c10d::Reducer).
  virtual const at::Tensor& parameter(int index) const = 0;

 protected:
  ~Deviations() = default;
};

/// The same rank's. Of the core's contexts only.
Deviations& deviations(StrategyContext& context);

}  // namespace ddprun
