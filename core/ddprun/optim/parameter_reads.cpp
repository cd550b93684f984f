// What is read of the copy, and what of the updated parameters.
#include "ddprun/optim/parameter_reads.h"

#include <algorithm>
#include <utility>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/named_tensor.h"

namespace ddprun {

namespace {

/// The model's tensors are views of a copy, or fused kernels read one.
bool needs_copy(const BufferDtypes& dtypes, KernelSet kernels) {
  return dtypes.model != dtypes.parameters ||
         (kernels == KernelSet::fused && dtypes.compute != at::kFloat);
}

}  // namespace

ParameterReads::ParameterReads(const std::vector<NamedTensor>& parameters,
                               std::vector<Range> ranges, const BufferDtypes& dtypes,
                               KernelSet kernels)
    : dtypes_(dtypes), ranges_(std::move(ranges)), has_copy_(needs_copy(dtypes, kernels)) {
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    // Tensors that are a copy themselves have no other place to be read from.
    float32_.push_back(parameter->read_in_float32 && dtypes.model == at::kFloat);
    products_.push_back(!parameter->read_in_float32 || parameter->read_in_products);
  }
}

std::vector<int> ParameterReads::in_float32(Range range) const {
  std::vector<int> found;
  for (std::size_t index = 0; has_copy_ && index < ranges_.size(); ++index) {
    if (float32_[index] && range.contains(ranges_[index])) found.push_back(static_cast<int>(index));
  }
  return found;
}

bool ParameterReads::copy_in(Range range) const {
  if (!only_float32(range)) return true;
  const std::vector<int> read = in_float32(range);
  return std::any_of(read.begin(), read.end(), [&](int index) { return both(index); });
}

bool ParameterReads::only_float32(Range range) const {
  for (std::size_t index = 0; has_copy_ && index < ranges_.size(); ++index) {
    const bool within = ranges_[index].begin < range.end && range.begin < ranges_[index].end;
    if (within && !float32_[index]) return false;
  }
  return true;
}

std::int64_t copy_bytes(const ParameterLayout& layout, const Unit& unit) {
  if (!layout.reads().has_copy() || !layout.reads().copy_in(unit.range)) return 0;
  return bytes_of(unit.range.size(), layout.dtypes().compute);
}

std::vector<Range> ranges_without_copy(const ParameterLayout& layout, const Unit& unit,
                                       bool norms_stay) {
  if (layout.reads().only_float32(unit.range)) return {unit.range};
  if (norms_stay) return {};
  std::vector<Range> ranges;
  for (const int index : layout.reads().in_float32(unit.range)) {
    ranges.push_back(layout.with_padding(index));
  }
  return ranges;
}

std::int64_t bytes_read(const ParameterLayout& layout, const Unit& unit, bool norms_stay) {
  const std::int64_t elements = elements_of(ranges_without_copy(layout, unit, norms_stay));
  return copy_bytes(layout, unit) + bytes_of(elements, layout.dtypes().parameters);
}

std::vector<Range> beside_copy(const ParameterLayout& layout) {
  std::vector<Range> ranges;
  for (const Unit& unit : layout.units()) {
    if (layout.reads().only_float32(unit.range)) continue;
    const std::vector<Range> of_unit = ranges_without_copy(layout, unit);
    ranges.insert(ranges.end(), of_unit.begin(), of_unit.end());
  }
  return ranges;
}

}  // namespace ddprun
