// Exchanges between the ranks' flat buffers, whole or sharded.
#include "ddprun/parallel/buffer_context.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "ddprun/optim/flat_parts.h"

namespace ddprun {

// Every context is one of ours.
void listen(StrategyContext& context, UnitListener& listener) {
  static_cast<BufferContext&>(context).set_listener(listener);
}
Slices& slices(StrategyContext& context) { return static_cast<BufferContext&>(context); }
Deviations& deviations(StrategyContext& context) { return static_cast<BufferContext&>(context); }

void BufferContext::broadcast_parameters() {
  buffers_.agree_on_values(
      [this](const at::Tensor& values) { group_.broadcast(values, 0, "parameters").wait(); });
  parameters_agreed_ = true;
}

int BufferContext::unit_of(Range range) const {
  const auto& units = buffers_.units();
  const auto unit = std::ranges::find(units, range, &Unit::range);
  TORCH_CHECK(unit != units.end(), "what is sharded travels unit by unit");
  return static_cast<int>(unit - units.begin());
}

Transfer BufferContext::reduce_scatter_gradients(Range range, std::string_view label) {
  const Range mine = own(range);
  const at::Tensor input = buffers_.gradients(range);
  at::Tensor output = part_of(input, range, mine);
  if (buffers_.holding().gradients != Placement::sharded) {
    return Transfer(shard_group_.reduce_scatter(output, input, ReduceOp::avg, label));
  }
  const int unit = unit_of(range);
  if (!buffers_.mean_begun(unit) && buffers_.mean_dtype() == output.scalar_type()) {
    output = buffers_.mean(mine);
  }
  return Transfer(shard_group_.reduce_scatter(output, input, ReduceOp::avg, label),
                  [this, unit, mine, output] { buffers_.add_mean(unit, mine, output); });
}

Transfer BufferContext::gather_parameters(Range range, std::string_view label) {
  const Range mine = own(range);
  const at::Tensor place = buffers_.gathered(range);
  const at::Tensor own = part_of(place, range, mine);
  if (buffers_.holding().parameters == Placement::sharded) own.copy_(buffers_.parameters(mine));
  return Transfer(shard_group_.all_gather(place, own, label),
                  [this, range] { buffers_.renew_copy(range); });
}

Transfer BufferContext::gather_norms() {
  const std::vector<int> norms = norms_of(buffers_);
  if (norms.empty()) return {};
  // Slices of unequal size, some of them empty: each rank adds its own to zeros.
  const at::Tensor packed = at::zeros({norm_elements(buffers_)}, buffers_.norm(norms[0]).options());
  const auto for_each = [this, norms, packed](const auto& visit) {
    std::int64_t begin = 0;
    for (const int index : norms) {
      const Range range = buffers_.range(index);
      visit(index, packed.narrow(0, begin, range.size()));
      begin += range.size();
    }
  };
  for_each([this](int index, const at::Tensor& values) {
    const Range range = buffers_.range(index);
    for (const Range& own : buffers_.owned(range)) {
      part_of(values, range, own).copy_(buffers_.parameters(own));
    }
  });
  return Transfer(shard_group_.all_reduce(packed, ReduceOp::sum, "norms"), [this, for_each] {
    for_each([this](int index, const at::Tensor& values) { buffers_.norm(index).copy_(values); });
  });
}

Transfer BufferContext::broadcast_updated(int index, int owner) {
  TORCH_CHECK(buffers_.holding().parameters == Placement::replicated,
              "what is sharded is gathered");
  const Range range = buffers_.range(index);
  const bool copy = buffers_.has_copy() && read_dtype(buffers_, index) != at::kFloat;
  const at::Tensor sent = copy ? buffers_.compute_copy(range) : buffers_.parameters(range);
  return Transfer(group_.broadcast(sent, owner, buffers_.name(index)),
                  [this, range] { buffers_.renew_copy(range); });
}

void BufferContext::ranks_mixed(std::vector<double> weights) {
  TORCH_CHECK(std::ssize(weights) == group_.size(), "ranks_mixed() wants a weight for each rank");
  ranks_met(Meeting::mixed);
  mixed_ = std::move(weights);
}

std::vector<double> BufferContext::mixing_weights() const {
  if (meeting_ == Meeting::mixed) return mixed_;
  if (ranks_agree()) return std::vector<double>(group_.size(), 1.0 / group_.size());
  std::vector<double> own(group_.size(), 0.0);
  own[group_.rank()] = 1;
  return own;
}

}  // namespace ddprun
