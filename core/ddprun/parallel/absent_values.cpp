// Finds once what becomes NaN in each step.
#include "ddprun/parallel/absent_values.h"

#include <ATen/ops/full.h>

#include <limits>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The first element of `unit` that only a gather brings up to date; unit.range.end: none.
std::int64_t first_gathered(const FlatBuffers& buffers, const Unit& unit) {
  if (buffers.holding().parameters == Placement::sharded) {
    int index = unit.first;
    while (index <= unit.last && contains(unit.norms, index)) ++index;  // sent with the update
    return index <= unit.last ? buffers.range(index).begin : unit.range.end;
  }
  std::int64_t element = unit.range.begin;
  for (const Range& own : buffers.owned(unit.range)) {
    if (own.begin == element) element = own.end;
  }
  return element;
}

}  // namespace

AbsentValues::AbsentValues(FlatBuffers& buffers) : buffers_(buffers) {
  if (buffers.holding().gradients == Placement::sharded) {
    const at::Tensor nan = at::full({1}, kNaN, buffers.parameter(0).options().requires_grad(false));
    for (int index = 0; index < buffers.count(); ++index) {
      gradients_.push_back(nan.expand(buffers.sizes(index)));
    }
  }
  if (!buffers.gathers()) return;
  if (!buffers.parameter(0).is_cpu()) return;  // a kernel for each unit, in each step
  for (const Unit& unit : buffers.units()) {
    const std::int64_t element = first_gathered(buffers, unit);
    if (element == unit.range.end) continue;
    old_.push_back(buffers.gathered(unit.range).narrow(0, element - unit.range.begin, 1));
  }
}

void AbsentValues::hide_gradients() {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    buffers_.parameter(static_cast<int>(i)).mutable_grad() = gradients_[i];
  }
}

void AbsentValues::hide_parameters() {
  for (const at::Tensor& element : old_) element.fill_(kNaN);
}

}  // namespace ddprun
