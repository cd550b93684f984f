// A periodic strategy that is right but for one fault in how its ranks meet: the proof's tests.
#include <ATen/TensorOperators.h>

#include <string>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::planted {

/// The ranks train apart, and take the mean of their parameters every other step.
class PlantedPeriodic final : public Strategy, public UnitListener {
 public:
  void declare_options(Options& options) override {
    options.option("fault", &fault_, "what is wrong",
                   {.one_of = {"nothing", "exact_says_apart", "one_rank_only", "off_by_little",
                               "ranks_differ", "mixes_by_other_weights", "loses_the_mean"}});
    options.option("first", &first_, "the first step in which it is wrong", {.min = 0});
    options.option("every", &every_, "steps from one meeting to the next", {.min = 1});
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    const bool exact = fault_ == "exact_says_apart";
    return {.collectives = collectives(layout),
            .agreement = exact ? Agreement::exact : Agreement::periodic};
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    listen(context, *this);
  }

  void before_forward(MicroBatch /*micro_batch*/) override {
    deviations(*context_).plan_anew(meets() ? collectives(context_->layout())
                                            : std::vector<PlannedCollective>());
  }

  void finish_backward() override {}

  void update() override {
    context_->update_rest();
    const bool met = meets();
    if (met) meet();
    ++steps_;
    deviations(*context_).ranks_met(met ? Meeting::mean : Meeting::none);
    if (met && mixes()) deviations(*context_).ranks_mixed(weights());
  }

 private:
  bool meets() const { return steps_ % every_ == every_ - 1; }
  bool mixes() const { return fault_ == "mixes_by_other_weights" || fault_ == "loses_the_mean"; }

  std::vector<double> weights() const {
    const bool keeps = fault_ == "loses_the_mean" && context_->group().rank() == 1;
    return keeps ? std::vector{0.0, 1.0} : std::vector{0.5, 0.5};
  }

  std::vector<PlannedCollective> collectives(const ParameterLayout& layout) const {
    return {{CollectiveKind::all_reduce, layout.parameter_bytes(layout.all()), PlannedIn::update}};
  }

  void meet() {
    const Range all = context_->layout().all();
    const at::Tensor parameters = context_->parameters(all);
    const at::Tensor own = parameters.clone();
    const bool alone = fault_ == "one_rank_only" && steps_ >= first_;
    if (alone && context_->group().rank() == 1) parameters.zero_();
    context_->group().all_reduce(parameters, alone ? ReduceOp::sum : ReduceOp::avg, "met").wait();
    if (fault_ == "off_by_little") parameters.mul_(1.0005);
    if (context_->group().rank() == 1) {
      if (fault_ == "ranks_differ") parameters.mul_(1.0005);
      if (mixes()) parameters.lerp_(own, fault_ == "loses_the_mean" ? 1 : 0.1);
    }
    context_->parameters_changed(all);
  }

  std::string fault_ = "nothing";
  std::int64_t first_ = 0;
  std::int64_t every_ = 2;
  std::int64_t steps_ = 0;
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_periodic, ddprun::planted::PlantedPeriodic, strategy, "planted_periodic",
                 "planted", "1.0")
