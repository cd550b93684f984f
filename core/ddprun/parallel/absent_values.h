// NaN where a program may look for gradients or parameters that lie elsewhere by then.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Training thread only.
class AbsentValues {
 public:
  /// `buffers` outlives it.
  explicit AbsentValues(FlatBuffers& buffers);

  /// Of sharded gradients, after a step's backwards: .grad is NaN in memory that nobody can write,
  /// until zero_grad(). Were it undefined, clip_grad_norm_() would do nothing and say nothing.
  void hide_gradients();
  /// Of parameters that are gathered to be used, after an update: what the model would read is old.
  /// One element of each unit becomes NaN, on the CPU alone.
  void hide_parameters();

 private:
  FlatBuffers& buffers_;
  std::vector<at::Tensor> gradients_;  // by parameter; empty: they stay
  std::vector<at::Tensor> old_;        // an element of each unit; empty: parameters stay
};

}  // namespace ddprun
