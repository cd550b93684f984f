// One all-reduce for each gradient, started during backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Gradients travel while backward computes those of earlier layers (Li et al., VLDB 2020, section
/// 3.2.3). A gradient waits for those before it in the order of the buffers, so that ranks agree on
/// the order of collectives whatever order autograd finishes in. A plan has an all-reduce of
/// layout.gradient_bytes(layout.range(index)) for each gradient.
class GradientReductions {
 public:
  /// For setup(). `context` outlives each call.
  explicit GradientReductions(StrategyContext& context);

  /// For on_gradient(): gradient `index` is final on this rank.
  void on_gradient(int index);
  /// For finish_backward(): waits for the gradients one after another, and calls `arrived` (may be
  /// empty) for each as soon as it is the mean.
  void finish(const std::function<void(int index)>& arrived = {});

 private:
  void start_next();

  StrategyContext& context_;
  std::vector<at::Tensor> gradients_;  // views, made once
  std::vector<bool> final_;
  std::vector<Work> works_;  // of this step, one for each gradient started
};

}  // namespace ddprun
