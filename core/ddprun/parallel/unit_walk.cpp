// The model names its units in forward; hooks at their outputs tell where backward is.
#include "ddprun/parallel/unit_walk.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

bool UnitWalk::sharded() const {
  const BufferHolding& holding = context_.buffers().holding();
  return holding.gradients == Placement::sharded || holding.parameters == Placement::sharded;
}

[[noreturn]] void UnitWalk::refuse_missing_units() const {
  const bool slices = frozen_ && frozen_->in_slices();
  throw Error({.what = "the model does not say which unit it computes, and the strategy needs to "
                       "know",
               .where = "DataParallel::forward()",
               .got = fmt::format("{} calls of DataParallel::unit()", next_),
               .expected = fmt::format("{}, one for each unit{}", roles_.units.size(),
                                       slices ? ", those that are frozen too" : ""),
               .hint = "call ddp.unit(i, [&] { return block(x); }) for each unit in order"});
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
  listened_ = false;
  if (frozen_) frozen_->before_forward();
  if (UnitListener* const listener = context_.listener()) {
    called(strategy_, "before_forward()", [&] { listener->before_forward(micro_batch); });
  }
}

at::Tensor UnitWalk::forward(const std::function<at::Tensor()>& loss) {
  next_ = 0;
  marks_.clear();
  if (needs_units() && roles_.units.size() == 1) return unit(0, loss);
  const at::Tensor value = loss();
  skip_frozen(std::ssize(roles_.units));
  if (needs_units() && next_ != std::ssize(roles_.units)) refuse_missing_units();
  return value;
}

at::Tensor UnitWalk::again(const std::function<at::Tensor()>& part) {
  const bool nested = std::exchange(again_, true);
  const at::Tensor out = part();
  again_ = nested;
  return out;
}

at::Tensor UnitWalk::unit(int models_unit, const std::function<at::Tensor()>& forward) {
  TORCH_CHECK(models_unit >= 0 && models_unit < std::ssize(roles_.units), "unit ", models_unit,
              " of ", roles_.units.size());
  if (!again_) {
    if (models_unit == 0) next_ = 0;
    skip_frozen(models_unit);
    TORCH_CHECK(models_unit == next_, "unit ", models_unit, " where ", next_, " comes next");
    ++next_;
  }
  if (!again_) mark_begin(models_unit);
  before(Pass::forward, models_unit);
  const at::Tensor out = forward();
  after(Pass::forward, roles_.units[models_unit]);
  if (!again_) mark_end();
  if (!out.requires_grad()) return out;
  listened_ |= roles_.units[models_unit] >= 0;
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

void UnitWalk::begin_backward() { to_leave_ = static_cast<int>(context_.buffers().units().size()); }

void UnitWalk::end_backward() {
  mark_end();
  if (std::exchange(listened_, false)) leave_down_to(0);
}

/// The gradients of this unit and of those behind it are final.
void UnitWalk::leave_down_to(int unit) {
  while (to_leave_ > unit) after(Pass::backward, --to_leave_);
}

void UnitWalk::enter_backward(int models_unit) {
  mark_end();
  mark_begin(models_unit);
  const auto trained = std::find_if(roles_.units.rend() - models_unit - 1, roles_.units.rend(),
                                    [](int number) { return number >= 0; });
  leave_down_to(trained == roles_.units.rend() ? 0 : *trained + 1);
  before(Pass::backward, models_unit);
}

}  // namespace ddprun
