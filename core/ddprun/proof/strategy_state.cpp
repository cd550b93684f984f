// Copies of a strategy's tensors.
#include "ddprun/proof/strategy_state.h"

namespace ddprun {

at::Tensor mean_of_ranks(const at::Tensor& tensor, ProcessGroup& group, const char* label) {
  at::Tensor mean = tensor.clone();
  group.all_reduce(mean, ReduceOp::avg, label).wait();
  return mean;
}

StrategyState::StrategyState(const CarriedState& carried)
    : tensors_(carried.tensors), error_feedback_(carried.error_feedback) {
  if (error_feedback_.defined()) tensors_.push_back(error_feedback_);
  for (const at::Tensor& tensor : tensors_) before_.push_back(tensor.clone());
}

at::Tensor StrategyState::kept(ProcessGroup& group) const {
  if (!error_feedback_.defined()) return {};
  return mean_of_ranks(error_feedback_, group, "error feedback");
}

void StrategyState::put_back() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(before_[i]);
}

}  // namespace ddprun
