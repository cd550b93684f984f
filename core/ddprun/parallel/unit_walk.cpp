// The model names its units in forward; hooks at their outputs tell where backward is.
#include "ddprun/parallel/unit_walk.h"

#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

bool UnitWalk::sharded() const {
  const BufferHolding& holding = context_.buffers().holding();
  return holding.gradients == Placement::sharded || holding.parameters == Placement::sharded;
}

void UnitWalk::check_listener() const {
  if (!needs_units() || context_.listener() != nullptr) return;
  throw Error({.what = "the strategy's plan needs to hear of units, and it does not listen",
               .where = "the strategy's setup()",
               .got = "no call of listen()",
               .expected = "a UnitListener, as the plan shards parameters or gradients, or gathers "
                           "parameters in forward",
               .hint = "derive from UnitListener, and call listen(context, *this) in setup()"});
}

[[noreturn]] void UnitWalk::refuse_missing_units() const {
  const bool slices = frozen_ && frozen_->in_slices();
  throw Error({.what = "the model does not say which unit it computes, and the strategy needs to "
                       "know",
               .where = "DataParallel::forward()",
               .got = counted(next_, "call") + " of DataParallel::unit()",
               .expected = fmt::format("{}, one for each unit{}", roles_.units.size(),
                                       slices ? ", those that are frozen too" : ""),
               .hint = "call ddp.unit(i, [&] { return block(x); }) for each unit in order"});
}

[[noreturn]] void UnitWalk::refuse_order(int models_unit) const {
  throw Error({.what = "the model's units came out of order",
               .where = "DataParallel::unit()",
               .got = fmt::format("unit {}", models_unit),
               .expected = next_ < std::ssize(roles_.units)
                               ? fmt::format("unit {} of {}", next_, roles_.units.size())
                               : fmt::format("no unit after {}, or unit 0", next_ - 1),
               .hint = "name each unit once in a pass, in the order in which their parameters are "
                       "registered"});
}

/// Units before `models_unit` without anything to train need not be named, if they are there whole.
void UnitWalk::skip_frozen(std::ptrdiff_t models_unit) {
  const bool whole = !frozen_ || !frozen_->in_slices();
  while (next_ < models_unit && roles_.units[next_] < 0) {
    if (!whole) refuse_missing_units();
    ++next_;
  }
}

void UnitWalk::before(Pass pass, int models_unit) {
  const int unit = roles_.units[models_unit];  // -1: all frozen
  if (UnitListener* const listener = context_.listener(); listener && unit >= 0) {
    called(strategy_, "before_unit()", [&] { listener->before_unit(pass, unit); });
  }
  if (frozen_) frozen_->before_unit(pass, models_unit);
}

void UnitWalk::after(Pass pass, int unit) {
  UnitListener* const listener = context_.listener();
  if (listener == nullptr || unit < 0) return;
  called(strategy_, "after_unit()", [&] { listener->after_unit(pass, unit); });
}

void UnitWalk::before_forward(MicroBatch micro_batch) {
  next_ = 0;
  if (frozen_) frozen_->before_forward();
  tell_listener(micro_batch);
}

void UnitWalk::step_replayed() {
  if (frozen_) frozen_->forget();
  tell_listener({});
}

void UnitWalk::tell_listener(MicroBatch micro_batch) {
  if (UnitListener* const listener = context_.listener()) {
    called(strategy_, "before_forward()", [&] { listener->before_forward(micro_batch); });
  }
}

at::Tensor UnitWalk::forward(const std::function<at::Tensor()>& loss) {
  next_ = 0;
  marks_.clear();
  reads_.forward_begins();
  if (needs_units() && roles_.units.size() == 1) return unit(0, loss);
  const at::Tensor value = loss();
  skip_frozen(std::ssize(roles_.units));
  if (needs_units() && next_ != std::ssize(roles_.units)) refuse_missing_units();
  reads_.check(value);
  return value;
}

at::Tensor UnitWalk::again(const std::function<at::Tensor()>& part) {
  const bool outer = std::exchange(again_, true);
  const auto restore = c10::make_scope_exit([&] { again_ = outer; });
  return part();
}

at::Tensor UnitWalk::unit(int models_unit, const std::function<at::Tensor()>& forward) {
  if (models_unit < 0 || models_unit >= std::ssize(roles_.units)) refuse_order(models_unit);
  if (!again_) {
    if (models_unit == 0) next_ = 0;
    skip_frozen(models_unit);
    if (models_unit != next_) refuse_order(models_unit);
    ++next_;
  }
  check_alone(models_unit);
  if (!again_) mark_begin(models_unit);
  before(Pass::forward, models_unit);
  const int unit = roles_.units[models_unit];
  if (!again_ && unit >= 0) {
    reads_.begin(unit);
    before_read_(unit);
  }
  const at::Tensor out = [&] {
    const int outer = std::exchange(open_, models_unit);
    const auto restore = c10::make_scope_exit([&] { open_ = outer; });
    return forward();
  }();
  if (!again_ && unit >= 0) reads_.end(unit);
  after(Pass::forward, unit);
  if (!again_) mark_end();
  if (!out.requires_grad()) return out;
  // Its gradient is known when all that comes after the unit has run backward.
  out.register_hook([this, models_unit](const at::Tensor&) { enter_backward(models_unit); });
  return out;
}

void UnitWalk::mark_begin(int models_unit) {
  Device& device = context_.process_group().device();
  if (device.torch_device().is_cpu()) marks_.push_back({models_unit, device.mark()});
}

void UnitWalk::mark_end() {
  if (marks_.empty() || marks_.back().end != 0) return;
  marks_.back().end = context_.process_group().device().mark();
}

void UnitWalk::begin_backward() {
  entered_ = false;
  to_leave_ = static_cast<int>(context_.buffers().units().size());
}

void UnitWalk::end_backward() {
  mark_end();
  while (entered_ && to_leave_ > 0) after(Pass::backward, --to_leave_);
  to_leave_ = 0;
}

/// The gradients of this unit and of those behind it are final, unless backward comes to them
/// again.
void UnitWalk::leave_down_to(int unit) {
  const auto& units = context_.buffers().units();
  while (to_leave_ > unit) {
    const Unit& last = units[to_leave_ - 1];
    if (!arrivals_.complete(last.first, last.last)) return;
    after(Pass::backward, --to_leave_);
  }
}

void UnitWalk::check_place(int index) const {
  const FlatBuffers& buffers = context_.buffers();
  if (buffers.holding().gradients != Placement::sharded) return;
  const int unit = buffers.unit_of(index);
  if (to_leave_ <= unit + 2) return;
  throw Error({.what = "gradients came in another order than that of the model's units",
               .where = "DataParallel::backward()",
               .got = fmt::format("that of {} before those of unit {}", buffers.name(index),
                                  buffers.units()[to_leave_ - 1].name),
               .expected = "units in the reverse order of forward: two share a place",
               .hint = "each unit reads what the one before it returned, or take a strategy that "
                       "does not shard gradients"});
}

bool UnitWalk::share_places() const {
  const BufferHolding& holding = context_.buffers().holding();
  return holding.parameters == Placement::sharded && !holding.place_for_each_unit;
}

void UnitWalk::check_alone(int models_unit) const {
  if (open_ < 0 || roles_.units.size() <= 2 || !share_places()) return;
  throw Error({.what = "a unit was computed within another one",
               .where = "DataParallel::unit()",
               .got = fmt::format("unit {} within unit {}", models_unit, open_),
               .expected = "one after another: units are gathered into two places in turn, so a "
                           "third takes that of the first",
               .hint = "`reshard_after_forward: false`, or one NamedTensor::unit for both"});
}

/// What a backward of second derivatives reads of a unit is not gathered for it.
void UnitWalk::check_derivatives() const {
  if (!share_places() || !c10::GradMode::is_enabled()) return;
  throw Error({.what = "second derivatives need parameters that stay",
               .where = "DataParallel::unit()",
               .got = "create_graph, and units that are gathered to be used",
               .expected = "units that stay until the step ends",
               .hint = "`reshard_after_forward: false`, or a strategy that does not shard "
                       "parameters"});
}

void UnitWalk::enter_backward(int models_unit) {
  check_derivatives();
  entered_ = true;
  mark_end();
  mark_begin(models_unit);
  const auto trained = std::find_if(roles_.units.rend() - models_unit - 1, roles_.units.rend(),
                                    [](int number) { return number >= 0; });
  leave_down_to(trained == roles_.units.rend() ? 0 : *trained + 1);
  before(Pass::backward, models_unit);
}

}  // namespace ddprun
