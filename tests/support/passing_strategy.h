// A strategy that passes each call on to another, for tests that change one of them.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "ddprun/parallel/buffer_context.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun::test {

class PassingStrategy : public Strategy, public UnitListener {
 public:
  explicit PassingStrategy(std::shared_ptr<Strategy> inner) : inner_(std::move(inner)) {}
  Plan plan(const ParameterLayout& layout, int rank) const override {
    return inner_->plan(layout, rank);
  }
  void setup(StrategyContext& context) override {
    context_ = &context;
    inner_->setup(context);
    listener_ = dynamic_cast<BufferContext&>(context).listener();
    if (listener_ != nullptr) listen(context, *this);
  }
  void before_forward(MicroBatch micro_batch) override { listener_->before_forward(micro_batch); }
  void before_unit(Pass pass, int unit) override { listener_->before_unit(pass, unit); }
  void after_unit(Pass pass, int unit) override { listener_->after_unit(pass, unit); }
  void on_gradient(int index) override { inner_->on_gradient(index); }
  void finish_backward() override { inner_->finish_backward(); }
  void update() override { inner_->update(); }
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return inner_->unsupported(run);
  }

 private:
  std::shared_ptr<Strategy> inner_;
  UnitListener* listener_ = nullptr;  // the inner one's
};

}  // namespace ddprun::test
