// Units on their way: one neighbour ahead for parameters, one behind for gradients.
#include "ddprun/plugin/parts/unit_exchanges.h"

#include <cstdlib>
#include <iterator>
#include <utility>

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
    : context_(context), arrived_(std::move(arrived)), under_way_(count(context)) {}

void UnitGradients::wait(int unit) {
  if (!under_way_[unit]) return;
  under_way_[unit]->wait();
  under_way_[unit].reset();
  if (arrived_) arrived_(unit);
}

void UnitGradients::before_unit(Pass pass, int unit) {
  // Its gradients go where those of the unit after the next have been.
  if (pass == Pass::backward && unit + 2 < count(context_)) wait(unit + 2);
}

void UnitGradients::after_unit(Pass pass, int unit) {
  if (pass == Pass::forward) return;
  const Unit& own = unit_of(context_, unit);
  under_way_[unit] = slices(context_).reduce_scatter_gradients(own.range, own.name);
}

void UnitGradients::finish(const std::function<void(int unit)>& then) {
  for (int unit = count(context_) - 1; unit >= 0; --unit) {
    wait(unit);
    then(unit);
  }
}

UnitParameters::UnitParameters(StrategyContext& context, AfterForward after_forward,
                               int first_in_backward)
    : context_(context),
      after_forward_(after_forward),
      first_in_backward_(first_in_backward),
      there_(count(context)),
      transfers_(count(context)) {}

void UnitParameters::plan(Plan& plan, const ParameterLayout& layout, AfterForward after_forward,
                          int first_in_backward) {
  const bool keeps = after_forward == AfterForward::keep;
  const auto& units = layout.units();
  for (int unit = 0; unit < std::ssize(units); ++unit) {
    const Range range = units[unit].range;
    plan_gather(plan, layout, range, keeps ? PlannedIn::step : PlannedIn::each_micro_batch);
    // Still there when backward comes, or not needed there.
    if (keeps || units[unit].used_elsewhere || unit + 2 >= std::ssize(units)) continue;
    if (unit < first_in_backward) continue;
    plan_gather(plan, layout, range, PlannedIn::each_micro_batch);
  }
}

void UnitParameters::before_forward(MicroBatch micro_batch) {
  // What stays is old where a step begins. Shared places hold what backward left there.
  if (micro_batch.first() || after_forward_ == AfterForward::reshard) forget();
}

void UnitParameters::before_unit(Pass pass, int unit) {
  start(unit);
  transfers_[unit].wait();
  if (pass == Pass::forward) {
    start(unit + 1);
  } else if (unit > first_in_backward_) {
    start(unit - 1);
  }
}

void UnitParameters::forget() {
  for (Transfer& transfer : transfers_) transfer.wait();  // their places will be written again
  there_.assign(there_.size(), false);
}

void UnitParameters::start(int unit) {
  if (unit < 0 || unit >= count(context_) || there_[unit]) return;
  const bool shares = after_forward_ == AfterForward::reshard;
  for (int other = 0; shares && other < count(context_); ++other) {
    if (std::abs(other - unit) > 1 && !unit_of(context_, other).used_elsewhere) {
      there_[other] = false;
    }
  }
  there_[unit] = true;
  const Unit& wanted = unit_of(context_, unit);
  transfers_[unit] = slices(context_).gather_parameters(wanted.range, wanted.name);
}

}  // namespace ddprun
