// Strategy "local_sgd": ranks train apart and average every few steps (Stich, ICLR 2019: local SGD;
// Douillard et al., 2023: DiLoCo, whose outer optimizer is SGD with Nesterov momentum).
#include <ATen/ops/zeros_like.h>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/state.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Each rank updates its parameters by its own gradients. Every `every` steps one all-reduce
/// averages how far the ranks have gone since the last one, and the outer optimizer goes that way
/// from where they were. With outer_lr 1 and outer_momentum 0 that is the mean of the parameters.
/// Moments stay each rank's own.
class LocalSgd final : public Strategy, public UnitListener {
 public:
  void declare_options(Options& options) override {
    options.option("every", &every_, "steps from one average over the ranks to the next",
                   {.min = 1, .max = 1e9});
    options.option("outer_lr", &outer_lr_, "how far the outer step goes; 1: as far as the ranks",
                   {.min = 0.0});
    options.option("outer_momentum", &outer_momentum_, "Nesterov momentum of the outer steps",
                   {.min = 0.0, .max = 1.0});
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (every_ == 1) return {};
    return refuse_captured_steps(run, "only some of its steps average, and a captured step is one");
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    return {.collectives = collectives(layout, 1), .agreement = Agreement::periodic};
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    const at::Tensor parameters = context.parameters(context.layout().all());
    averaged_ = parameters.clone();
    if (outer_momentum_ > 0) momentum_ = at::zeros_like(parameters);
    listen(context, *this);
  }

  void before_forward(MicroBatch) override {
    deviations(*context_).plan_anew(collectives(context_->layout(), steps_ + 1));
  }

  void finish_backward() override {}

  void update() override {
    context_->update_rest();
    const bool averages = ++steps_ % every_ == 0;
    if (averages) average();
    const bool outer = outer_lr_ != 1 || outer_momentum_ > 0;
    deviations(*context_).ranks_met(!averages ? Meeting::none
                                    : outer   ? Meeting::outer
                                              : Meeting::mean);
  }

  void declare_state(State& state) override {
    state.number("steps", steps_);
    state.tensor("averaged", averaged_);
    state.tensor("momentum", momentum_);
  }

 private:
  std::vector<PlannedCollective> collectives(const ParameterLayout& layout,
                                             std::int64_t step) const {
    if (step % every_ != 0) return {};
    return {{CollectiveKind::all_reduce, layout.parameter_bytes(layout.all()), PlannedIn::update}};
  }

  void average() {
    const Range all = context_->layout().all();
    const at::Tensor parameters = context_->parameters(all);
    const at::Tensor gone = parameters.sub_(averaged_);  // in the parameters' place
    context_->group().all_reduce(gone, ReduceOp::avg, "way").wait();
    if (momentum_.defined()) {
      momentum_.mul_(outer_momentum_).add_(gone);
      gone.add_(momentum_, outer_momentum_);
    }
    parameters.mul_(outer_lr_).add_(averaged_);
    averaged_.copy_(parameters);
    context_->parameters_changed(all);
  }

  std::int64_t every_ = 8;
  double outer_lr_ = 1.0;
  double outer_momentum_ = 0.0;
  std::int64_t steps_ = 0;
  at::Tensor averaged_;  // the parameters when the ranks last averaged
  at::Tensor momentum_;  // undefined: none
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::LocalSgd, "local_sgd",
                "ranks train apart, and average every few steps: local SGD, DiLoCo", "1.0")
