// Units on their way: one neighbour ahead for parameters, one behind for gradients.
#include "ddprun/plugin/parts/unit_exchanges.h"

#include <cstdlib>
#include <iterator>
#include <utility>

#include "ddprun/base/options.h"
#include "ddprun/optim/parameter_reads.h"
#include "ddprun/plugin/run_description.h"

namespace ddprun {

namespace {

int count(const StrategyContext& context) {
  return static_cast<int>(context.layout().units().size());
}
const Unit& unit_of(const StrategyContext& context, int unit) {
  return context.layout().units()[unit];
}

}  // namespace

UnitGradients::UnitGradients(StrategyContext& context, std::function<void(int unit)> arrived)
    : context_(context),
      arrived_(std::move(arrived)),
      under_way_(count(context)),
      transfers_(count(context)) {}

void UnitGradients::wait(int unit) {
  if (!under_way_[unit]) return;
  transfers_[unit].wait();
  under_way_[unit] = false;
  if (arrived_) arrived_(unit);
}

void UnitGradients::before_unit(Pass pass, int unit) {
  // Its gradients go where those of the unit after the next have been.
  if (pass == Pass::backward && unit + 2 < count(context_)) wait(unit + 2);
}

void UnitGradients::after_unit(Pass pass, int unit) {
  if (pass == Pass::forward) return;
  const Unit& own = unit_of(context_, unit);
  transfers_[unit] = context_.slices().reduce_scatter_gradients(own.range, own.name);
  under_way_[unit] = true;
}

void UnitGradients::finish(const std::function<void(int unit)>& then) {
  for (int unit = count(context_) - 1; unit >= 0; --unit) {
    wait(unit);
    then(unit);
  }
}

UnitParameters::UnitParameters(StrategyContext& context, UnitGathers gathers)
    : context_(context), gathers_(gathers), there_(count(context)), transfers_(count(context)) {}

void UnitParameters::plan(Plan& plan, const ParameterLayout& layout, UnitGathers gathers) {
  const bool keeps = gathers.after_forward == AfterForward::keep;
  const auto& units = layout.units();
  if (gathers.norms_stay) plan_gather_norms(plan, layout);
  for (int unit = 0; unit < std::ssize(units); ++unit) {
    const Range range = units[unit].range;
    plan_gather(plan, layout, range, keeps ? PlannedIn::step : PlannedIn::each_micro_batch);
    // Still there when backward comes, or not needed there.
    if (keeps || units[unit].used_elsewhere || unit + 2 >= std::ssize(units)) continue;
    if (unit < gathers.first_in_backward) continue;
    plan_gather(plan, layout, range, PlannedIn::each_micro_batch);
  }
}

void UnitParameters::before_forward() {
  // What stays is old where a step begins. Shared places hold what backward left there.
  if (context_.slices().last_micro_batch()) {
    forget();
  } else if (gathers_.after_forward == AfterForward::reshard) {
    forget_units();
  }
}

void UnitParameters::before_unit(Pass pass, int unit) {
  start_norms();
  start(unit);
  norms_.wait();
  transfers_[unit].wait();
  if (pass == Pass::forward) {
    start(unit + 1);
  } else if (unit > gathers_.first_in_backward) {
    start(unit - 1);
  }
}

void UnitParameters::start_norms() {
  if (!gathers_.norms_stay || norms_there_) return;
  norms_there_ = true;
  norms_ = context_.slices().gather_norms();
}

void UnitParameters::forget() {
  norms_.wait();
  norms_there_ = false;
  forget_units();
}

void UnitParameters::forget_units() {
  for (Transfer& transfer : transfers_) transfer.wait();  // their places will be written again
  there_.assign(there_.size(), false);
}

void UnitParameters::start(int unit) {
  if (unit < 0 || unit >= count(context_) || there_[unit]) return;
  const bool shares = gathers_.after_forward == AfterForward::reshard;
  for (int other = 0; shares && other < count(context_); ++other) {
    if (std::abs(other - unit) > 1 && !unit_of(context_, other).used_elsewhere) {
      there_[other] = false;
    }
  }
  there_[unit] = true;
  const Unit& wanted = unit_of(context_, unit);
  transfers_[unit] = context_.slices().gather_parameters(wanted.range, wanted.name);
}

UnitGathers UnitSharding::gathers(const ParameterLayout& layout) const {
  return {.after_forward = reshard_after_forward_ ? AfterForward::reshard : AfterForward::keep,
          .norms_stay = replicate_norms_ && !beside_copy(layout).empty()};
}

void UnitSharding::declare_options(Options& options) {
  options.option("reshard_after_forward", &reshard_after_forward_,
                 "let go of a unit when forward has left it, and gather it again for backward");
  options.option("replicate_norms", &replicate_norms_,
                 "keep the norms' weights on each rank, and gather all of them once a step");
}

void UnitSharding::begin(StrategyContext& context, std::function<void(int unit)> arrived) {
  parameters_.emplace(context, gathers(context.layout()));
  gradients_.emplace(context, std::move(arrived));
}

void UnitSharding::before_forward() { parameters_->before_forward(); }

void UnitSharding::before_unit(Pass pass, int unit) {
  gradients_->before_unit(pass, unit);
  parameters_->before_unit(pass, unit);
}

void UnitSharding::after_unit(Pass pass, int unit) { gradients_->after_unit(pass, unit); }

void UnitSharding::update() {
  context_->update_rest();
  parameters_->forget();
}

void UnitSharding::hold_units(Plan& plan, const ParameterLayout& layout) const {
  const UnitGathers gathers = this->gathers(layout);
  plan.holding.parameters = plan.holding.gradients = Held::by_unit;
  plan.holding.place_for_each_unit = gathers.after_forward == AfterForward::keep;
  plan.holding.replicate_norms = gathers.norms_stay;
  UnitParameters::plan(plan, layout, gathers);
}

std::optional<Refusal> UnitSharding::unsupported(const RunDescription& run) const {
  if (run.recomputed_units > 1 && reshard_after_forward_) {
    return Refusal{
        .reason =
            "units that are computed again are gathered once more, and the plan "
            "knows of single units only",
        .expected =
            "model.recompute none, or every_block with model.unit block, or "
            "reshard_after_forward false",
        .hint =
            "under `model:`, `recompute: every_block` and `unit: block`; or let units stay: "
            "`reshard_after_forward: false`"};
  }
  if (replicate_norms_ && (run.kernels != KernelSet::fused || run.compute_dtype == c10::kFloat)) {
    return Refusal{
        .reason =
            "replicate_norms keeps what is read in float32 beside a copy of the matrices, and "
            "here nothing is",
        .expected = "model.kernels fused, with a precision that computes in bfloat16",
        .hint = "remove `replicate_norms:` under `strategy:`"};
  }
  return refuse_captured_steps(run);
}

}  // namespace ddprun
