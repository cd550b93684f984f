// Right strategies, an exact and a lossy one, whose parts tests of proofs replace.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::test {

/// An all-reduce for each gradient.
class OneByOne : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int) const override {
    Plan plan;
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    return plan;
  }
  void finish_backward() override {
    for (int i = 0; i < context_->layout().count(); ++i) reduce(i);
  }

 protected:
  virtual void reduce(int i) {
    const ParameterLayout& layout = context_->layout();
    context_->group().all_reduce(context_->gradients(layout.range(i)), op_, layout.name(i)).wait();
  }
  at::Tensor gradients() const { return context_->gradients(context_->layout().all()); }

  ReduceOp op_ = ReduceOp::avg;
};

/// Sends a half of each gradient. Of the other `kept` times it travels with the next: right is 1.
class SendsHalf : public OneByOne {
 public:
  explicit SendsHalf(double kept = 1) : kept_(kept) {}
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan = OneByOne::plan(layout, rank);
    plan.agreement = Agreement::lossy;
    return plan;
  }
  void setup(StrategyContext& context) override {
    OneByOne::setup(context);
    error_ = at::zeros({context.layout().all().size()});
    deviations(context).carries({.error_feedback = error_});
  }
  void finish_backward() override {
    error_.add_(gradients());
    gradients().copy_(error_ * share_);
    error_.sub_(gradients()).mul_(kept_);
    OneByOne::finish_backward();
  }

 protected:
  at::Tensor error_;
  double share_ = 0.5;

 private:
  double kept_;
};

}  // namespace ddprun::test
