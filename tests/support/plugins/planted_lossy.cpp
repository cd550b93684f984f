// A lossy strategy that is right but for one fault in what it keeps back: the proof's tests.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::planted {

/// Gradients travel with 8 significant bits. What that loses is added to the next ones.
class PlantedLossy final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("fault", &fault_, "what is wrong",
                   {.one_of = {"nothing", "never_send", "halve", "ranks_differ", "lose_in_update",
                               "overwrite", "decay", "zero", "negate"}});
    options.option("feedback", &feedback_, "false: what is not sent is lost");
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan{.agreement = Agreement::lossy};
    return plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.all())), plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    error_ = at::zeros({context.layout().all().size()});
    if (feedback_) deviations(context).carries({.error_feedback = error_});
  }

  void finish_backward() override {
    const at::Tensor gradients = context_->gradients(context_->layout().all());
    const at::Tensor all = sent_of(gradients);
    const at::Tensor sent = all.to(at::kBFloat16).to(at::kFloat);
    if (fault_ == "never_send") {
      error_.add_(gradients - sent);
    } else {
      error_.copy_(all - sent);
    }
    gradients.copy_(sent);
    context_->group().all_reduce(gradients, ReduceOp::avg, "sent").wait();
    if (fault_ == "halve") gradients.mul_(0.5);
    if (fault_ == "zero") gradients.zero_();
    if (fault_ == "negate") gradients.neg_();
    if (fault_ == "ranks_differ" && context_->group().rank() == 1) gradients.neg_();
  }

  void update() override {
    Strategy::update();
    if (fault_ == "lose_in_update") error_.zero_();
  }

 private:
  at::Tensor sent_of(const at::Tensor& gradients) const {
    if (!feedback_ || fault_ == "overwrite" || fault_ == "never_send") return gradients;
    return gradients + (fault_ == "decay" ? error_ * 0.9 : error_);
  }

  std::string fault_ = "nothing";
  bool feedback_ = true;
  at::Tensor error_;
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_lossy, ddprun::planted::PlantedLossy, strategy, "planted_lossy", "planted",
                 "1.0")
