// Exchanges between the ranks' flat buffers, held whole or by unit.
#include "ddprun/parallel/buffer_context.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/parameter_reads.h"

namespace ddprun {

void BufferContext::broadcast_parameters() {
  buffers_.agree_on_values(
      [this](const at::Tensor& values) { group_.broadcast(values, 0, "parameters").wait(); });
  parameters_agreed_ = true;
}

int BufferContext::unit_of(Range range) const {
  const auto& units = buffers_.units();
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& each) { return each.range == range; });
  TORCH_CHECK(unit != units.end(), "what is held by unit travels unit by unit");
  return static_cast<int>(unit - units.begin());
}

Transfer BufferContext::reduce_scatter_gradients(Range range, std::string_view label) {
  const Range mine = own(range);
  const at::Tensor input = buffers_.gradients(range);
  at::Tensor output = part_of(input, range, mine);
  if (buffers_.holding().gradients != Held::by_unit) {
    return Transfer({sharers_.reduce_scatter(output, input, ReduceOp::avg, label)}, {});
  }
  const int unit = unit_of(range);
  if (!buffers_.mean_begun(unit) && buffers_.mean_dtype() == output.scalar_type()) {
    output = buffers_.mean(mine);
  }
  return Transfer({sharers_.reduce_scatter(output, input, ReduceOp::avg, label)},
                  [this, unit, mine, output] { buffers_.add_mean(unit, mine, output); });
}

at::Tensor BufferContext::place_to_gather(Range range) const {
  const bool from_masters = buffers_.reads().only_float32(range);
  if (buffers_.holding().parameters == Held::whole) {
    return from_masters ? buffers_.parameters(range) : buffers_.compute_copy(range);
  }
  const at::Tensor place = from_masters && buffers_.reads().has_copy()
                               ? buffers_.gathered_float32(range)
                               : buffers_.gathered(range);
  const Range mine = own(range);
  part_of(place, range, mine).copy_(buffers_.parameters(mine));
  return place;
}

Transfer BufferContext::gather_parameters(Range range, std::string_view label) {
  const Range mine = own(range);
  const at::Tensor place = place_to_gather(range);
  const at::Tensor own = part_of(place, range, mine);
  std::vector<Work> works = {sharers_.all_gather(place, own, label)};
  if (buffers_.reads().only_float32(range)) return Transfer(std::move(works), renewed(range));
  if (buffers_.norms().defined()) return Transfer(std::move(works), {});
  return gather_float32(range, std::move(works), label);
}

Transfer BufferContext::gather_norms() {
  const at::Tensor& norms = buffers_.norms();
  // Slices are of unequal size, and some are empty: each rank adds its own to zeros.
  norms.zero_();
  for (const Range& range : beside_copy(buffers_)) {
    for (const Range& own : buffers_.owned(range)) {
      buffers_.gathered_float32(own).copy_(buffers_.parameters(own));
    }
  }
  return Transfer({sharers_.all_reduce(norms, ReduceOp::sum, "norms")}, {});
}

Transfer BufferContext::broadcast_updated(int index, int owner) {
  TORCH_CHECK(buffers_.holding().parameters == Held::whole, "what is held by unit is gathered");
  const Range range = buffers_.range(index);
  const at::Tensor sent = buffers_.reads().copy_alone(index) ? buffers_.compute_copy(range)
                                                             : buffers_.parameters(range);
  std::vector<Work> works = {group_.broadcast(sent, owner, buffers_.name(index))};
  if (!buffers_.reads().both(index)) return Transfer(std::move(works), {});
  return Transfer(std::move(works), [this, range] { buffers_.parameters_changed(range); });
}

std::function<void()> BufferContext::renewed(Range range) const {
  std::vector<int> read_twice = buffers_.reads().in_float32(range);
  std::erase_if(read_twice, [this](int index) { return !buffers_.reads().both(index); });
  if (read_twice.empty()) return {};
  return [this, read_twice] {
    for (const int index : read_twice) {
      const Range range = buffers_.range(index);
      if (buffers_.holding().parameters == Held::by_unit) {
        buffers_.gathered(range).copy_(buffers_.gathered_float32(range));
      } else {
        buffers_.parameters_changed(range);
      }
    }
  };
}

Transfer BufferContext::gather_float32(Range range, std::vector<Work> works,
                                       std::string_view label) {
  const std::vector<int> indices = buffers_.reads().in_float32(range);
  if (indices.empty()) return Transfer(std::move(works), {});
  std::int64_t elements = 0;
  for (const int index : indices) elements += buffers_.range(index).size();
  // Small and in pieces of unequal size: each rank adds its own to zeros.
  const Range mine = own(range);
  const at::Tensor packed =
      at::zeros({elements}, buffers_.parameter(0).options().dtype(buffers_.dtypes().parameters));
  std::int64_t begin = 0;
  for (const int index : indices) {
    const Range whole = buffers_.range(index);
    const Range own = shared(whole, mine);
    if (own.size() > 0) {
      packed.narrow(0, begin + own.begin - whole.begin, own.size()).copy_(buffers_.parameters(own));
    }
    begin += whole.size();
  }
  works.push_back(sharers_.all_reduce(packed, ReduceOp::sum, label));
  return Transfer(std::move(works), [this, indices, packed, renew = renewed(range)] {
    std::int64_t begin = 0;
    for (const int index : indices) {
      const Range whole = buffers_.range(index);
      const at::Tensor place = buffers_.holding().parameters == Held::whole
                                   ? buffers_.parameters(whole)
                                   : buffers_.gathered_float32(whole);
      place.copy_(packed.narrow(0, begin, whole.size()));
      begin += whole.size();
    }
    if (renew) renew();
  });
}

}  // namespace ddprun
