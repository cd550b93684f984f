// Starts the gradients' all-reduces in the order of the buffers.
#include "ddprun/plugin/parts/gradient_reductions.h"

#include <string>

namespace ddprun {

GradientReductions::GradientReductions(StrategyContext& context) : context_(context) {
  const ParameterLayout& layout = context.layout();
  for (int i = 0; i < layout.count(); ++i) gradients_.push_back(context.gradients(layout.range(i)));
  final_.assign(gradients_.size(), false);
  works_.reserve(gradients_.size());
}

void GradientReductions::on_gradient(int index) {
  final_[index] = true;
  while (works_.size() < gradients_.size() && final_[works_.size()]) start_next();
}

void GradientReductions::finish(const std::function<void(int index)>& arrived) {
  // A parameter that this backward did not use has a gradient of zero here, but maybe not on other
  // ranks.
  while (works_.size() < gradients_.size()) start_next();
  for (std::size_t i = 0; i < works_.size(); ++i) {
    works_[i].wait();
    if (arrived) arrived(static_cast<int>(i));
  }
  works_.clear();
  final_.assign(gradients_.size(), false);
}

void GradientReductions::start_next() {
  const std::size_t next = works_.size();
  const std::string& label = context_.layout().name(static_cast<int>(next));
  works_.push_back(
      context_.group().all_reduce(gradients_[next], ReduceOp::avg, label, Await::batch));
}

}  // namespace ddprun
