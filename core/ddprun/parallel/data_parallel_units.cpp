// The model tells of its units, and DataParallel tells the strategy.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "ddprun/base/error.h"
#include "ddprun/parallel/data_parallel.h"

namespace ddprun {

bool DataParallel::holds_by_unit() const {
  return holds_by_unit_ || buffers_.holding().parameters == Held::by_unit;
}

[[noreturn]] void DataParallel::refuse_untold_units() const {
  const bool slices = frozen_ && frozen_->in_slices();
  throw Error({.what = "the model does not say which unit it computes, and the strategy needs to "
                       "know",
               .where = "DataParallel::forward()",
               .got = fmt::format("{} calls of DataParallel::unit()", next_unit_),
               .expected = fmt::format("{}, one for each unit{}", roles_.units.size(),
                                       slices ? ", those that are frozen too" : ""),
               .hint = "call ddp.unit(i, [&] { return block(x); }) for each unit in order"});
}

/// Units before `models_unit` without anything to train need not be told, if they are there whole.
void DataParallel::skip_frozen_units(std::ptrdiff_t models_unit) {
  const bool whole = !frozen_ || !frozen_->in_slices();
  while (next_unit_ < models_unit && roles_.units[next_unit_] < 0) {
    if (!whole) refuse_untold_units();
    ++next_unit_;
  }
}

at::Tensor DataParallel::unit(int models_unit, const std::function<at::Tensor()>& forward) {
  if (extent_ == StepExtent::forward) return forward();
  TORCH_CHECK(models_unit >= 0 && models_unit < std::ssize(roles_.units), "unit ", models_unit,
              " of ", roles_.units.size());
  if (!again_) {
    if (models_unit == 0) next_unit_ = 0;
    skip_frozen_units(models_unit);
    TORCH_CHECK(models_unit == next_unit_, "unit ", models_unit, " where ", next_unit_,
                " comes next");
    ++next_unit_;
  }
  const int unit = roles_.units[models_unit];  // -1: all frozen
  if (unit >= 0) strategy_.before_unit(Pass::forward, unit);
  if (frozen_) frozen_->before_unit(Pass::forward, models_unit);
  const at::Tensor out = forward();
  if (unit >= 0) strategy_.after_unit(Pass::forward, unit);
  if (!out.requires_grad()) return out;
  units_told_ |= unit >= 0;
  // Its gradient is known when all that comes after the unit has run backward.
  out.register_hook([this, models_unit](const at::Tensor&) { enter_backward(models_unit); });
  return out;
}

/// The gradients of this unit and of those behind it are final.
void DataParallel::leave_units_down_to(int unit) {
  while (units_to_leave_ > unit) strategy_.after_unit(Pass::backward, --units_to_leave_);
}

void DataParallel::enter_backward(int models_unit) {
  const auto trained = std::find_if(roles_.units.rend() - models_unit - 1, roles_.units.rend(),
                                    [](int number) { return number >= 0; });
  leave_units_down_to(trained == roles_.units.rend() ? 0 : *trained + 1);
  const int unit = roles_.units[models_unit];
  if (unit >= 0) strategy_.before_unit(Pass::backward, unit);
  if (frozen_) frozen_->before_unit(Pass::backward, models_unit);
}

at::Tensor DataParallel::whole_loss(const std::function<at::Tensor()>& loss) {
  const bool by_unit = needs_units();
  next_unit_ = 0;
  if (by_unit && roles_.units.size() == 1) return unit(0, loss);
  const at::Tensor value = loss();
  skip_frozen_units(std::ssize(roles_.units));
  if (by_unit && next_unit_ != std::ssize(roles_.units)) refuse_untold_units();
  return value;
}

}  // namespace ddprun
