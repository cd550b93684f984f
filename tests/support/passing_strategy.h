// A strategy that passes each call on to another, for tests that change one of them.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace ddprun::test {

class PassingStrategy : public Strategy {
 public:
  explicit PassingStrategy(std::shared_ptr<Strategy> inner) : inner_(std::move(inner)) {}
  Plan plan(const ParameterLayout& layout, int rank) const override {
    return inner_->plan(layout, rank);
  }
  void setup(StrategyContext& context) override {
    context_ = &context;
    inner_->setup(context);
  }
  void before_forward() override { inner_->before_forward(); }
  void before_unit(Pass pass, int unit) override { inner_->before_unit(pass, unit); }
  void after_unit(Pass pass, int unit) override { inner_->after_unit(pass, unit); }
  void on_gradient(int index) override { inner_->on_gradient(index); }
  void finish_backward() override { inner_->finish_backward(); }
  void update() override { inner_->update(); }
  std::vector<at::Tensor> state() override { return inner_->state(); }
  at::Tensor kept_back() const override { return inner_->kept_back(); }
  bool ranks_agree() const override { return inner_->ranks_agree(); }
  bool reports_ranges() const override { return inner_->reports_ranges(); }
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return inner_->unsupported(run);
  }

 private:
  std::shared_ptr<Strategy> inner_;
};

}  // namespace ddprun::test
