// What a strategy carries from one step to the next, kept while a check makes backwards.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ddprun/parallel/buffer_context.h"

namespace ddprun {

/// The mean over the ranks. All ranks call it.
at::Tensor mean_of_ranks(const at::Tensor& tensor, ProcessGroup& group, const char* label);

/// What a strategy leaves for the next step, put back after backwards that are no steps. Training
/// thread.
class StrategyState {
 public:
  /// Copies it.
  explicit StrategyState(const CarriedState& carried);

  /// The mean over the ranks of their error feedback; undefined if there is none. All ranks call
  /// it.
  at::Tensor kept(ProcessGroup& group) const;
  void put_back();

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor error_feedback_;
  std::vector<at::Tensor> before_;
};

}  // namespace ddprun
