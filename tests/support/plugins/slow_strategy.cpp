// A strategy that is right, and slow in a way that its options plant: tests of what limits a row.
#include <ATen/ops/ones.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::slow {

/// What no experiment says: as if the program had become slower.
double extra_ms() {
  const char* const text = std::getenv("SLOW_EXTRA_MS");
  return text == nullptr ? 0 : std::atof(text);
}

/// One all-reduce for each gradient, asked for when the gradient is final. A rank sleeps in
/// backward, just before its last gradient.
class Slow final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("sleep_ms", &sleep_ms_, "how long a rank sleeps in backward", {.min = 0});
    options.option("rank", &rank_, "the only rank that sleeps; -1: all", {.min = -1});
    options.option("first", &first_, "the first step in which it sleeps", {.min = 0});
    options.option("late", &late_, "the gradient that is asked for when backward is over; -1: none",
                   {.min = -1});
    options.option("leak_mb", &leak_mb_, "what each step allocates and keeps", {.min = 0});
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan;
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    return plan;
  }

  void on_gradient(int index) override {
    ++seen_;
    if (index != late_) works_.push_back(all_reduce(index));
    const bool here = rank_ < 0 || rank_ == context_->group().rank();
    if (seen_ + 1 == context_->layout().count() && here && step_ >= first_) {
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(sleep_ms_ + extra_ms()));
    }
  }

  void finish_backward() override {
    // First, so that what it waits is not for another one that was held up.
    if (late_ >= 0) all_reduce(static_cast<int>(late_)).wait();
    for (Work& work : works_) work.wait();
    works_.clear();
    seen_ = 0;
  }

  void update() override {
    Strategy::update();
    ++step_;
    if (leak_mb_ > 0) kept_.push_back(at::ones({leak_mb_ * 250'000}));
  }

 private:
  Work all_reduce(int index) {
    const ParameterLayout& layout = context_->layout();
    return context_->group().all_reduce(context_->gradients(layout.range(index)), ReduceOp::avg,
                                        layout.name(index));
  }

  double sleep_ms_ = 0;
  std::int64_t rank_ = -1, first_ = 0, late_ = -1;
  std::int64_t step_ = 0, seen_ = 0;  // gradients of this step
  std::int64_t leak_mb_ = 0;
  std::vector<at::Tensor> kept_;
  std::vector<Work> works_;
};

}  // namespace ddprun::slow

DDPRUN_PLUGIN_AS(slow_slow, ddprun::slow::Slow, strategy, "slow", "slow", "1.0")
