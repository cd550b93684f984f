// Lays parameters one after another, in the order in which backward completes them.
#include "ddprun/optim/parameter_layout.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/optim/parameter_check.h"

namespace ddprun {

namespace {

constexpr std::int64_t kAlignment = 64 / sizeof(float);  // elements; a cache line, and ATen's own

std::int64_t align(std::int64_t elements, std::int64_t to) { return (elements + to - 1) / to * to; }

/// The rule that the dtypes break; empty: they fit each other.
std::string broken_rule(const BufferDtypes& dtypes) {
  if (dtypes.model != at::kFloat &&
      (dtypes.compute != dtypes.model || dtypes.reduce != dtypes.model)) {
    return "products and exchanged gradients in the dtype of tensors that are not float32";
  }
  if (dtypes.parameters != at::kFloat && dtypes.parameters != dtypes.model) {
    return "updated parameters in float32 or in the dtype of the tensors";
  }
  if (dtypes.moments != at::kFloat && dtypes.moments != dtypes.parameters) {
    return "moments in float32 or in the dtype of the updated parameters";
  }
  return {};
}

void check_dtypes(const BufferDtypes& dtypes) {
  const std::string rule = broken_rule(dtypes);
  if (rule.empty()) return;
  throw ConfigError(
      {.what = "the precision's dtypes do not fit each other",
       .where = "precision",
       .got = fmt::format("tensors in {}, products in {}, gradients in {}, updated "
                          "parameters in {}, moments in {}",
                          at::toString(dtypes.model), at::toString(dtypes.compute),
                          at::toString(dtypes.reduce), at::toString(dtypes.parameters),
                          at::toString(dtypes.moments)),
       .expected = rule,
       .hint = "let the precision's dtypes() keep this rule"});
}

/// The model's tensors are views of a copy, or fused kernels read one.
bool needs_copy(const BufferDtypes& dtypes, KernelSet kernels) {
  return dtypes.model != dtypes.parameters ||
         (kernels == KernelSet::fused && dtypes.compute != at::kFloat);
}

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<NamedTensor>& parameters,
                                 const BufferDtypes& dtypes, KernelSet kernels, int ranks,
                                 int ranks_per_host)
    : dtypes_(dtypes),
      ranks_(ranks),
      ranks_per_host_(ranks_per_host == 0 ? ranks : ranks_per_host),
      has_copy_(needs_copy(dtypes, kernels)) {
  check_list(parameters);
  check_dtypes(dtypes);
  place(parameters);
}

void ParameterLayout::place(const std::vector<NamedTensor>& parameters) {
  std::int64_t end = 0;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (units_.empty() || units_.back().name != parameter->unit) {
      end = align(end, kAlignment * ranks_);
      if (!units_.empty()) units_.back().range.end = end;
      units_.push_back({.name = parameter->unit, .first = count(), .range = {end, end}});
    }
    const std::int64_t size = parameter->tensor.numel();
    units_.back().last = count();
    unit_of_.push_back(static_cast<int>(units_.size()) - 1);
    names_.push_back(parameter->name);
    ranges_.push_back({end, end + size});
    sizes_.push_back(parameter->tensor.sizes().vec());
    // Tensors that are a copy themselves have no other place to be read from.
    float32_.push_back(parameter->read_in_float32 && dtypes_.model == at::kFloat);
    products_.push_back(!parameter->read_in_float32 || parameter->read_in_products);
    end = align(end + size, kAlignment);
    parameter_count_ += size;
  }
  units_.back().range.end = align(end, kAlignment * ranks_);
  std::reverse(units_.begin(), units_.end());
  for (int& unit : unit_of_) unit = static_cast<int>(units_.size()) - 1 - unit;
}

Range ParameterLayout::with_padding(int index) const {
  const bool last = index + 1 == count();
  return {range(index).begin, last ? all().end : range(index + 1).begin};
}

Range ParameterLayout::slice(Range range, int part, int parts) const {
  if (parts == 0) parts = ranks_;
  TORCH_CHECK(range.size() % ranks_ == 0, "a range that is not made of whole units has no slices");
  TORCH_CHECK(ranks_ % parts == 0, parts, " slices for ", ranks_, " ranks");
  const std::int64_t size = range.size() / parts;
  return {range.begin + part * size, range.begin + (part + 1) * size};
}

std::int64_t ParameterLayout::gradient_bytes(Range range) const {
  return range.size() * static_cast<std::int64_t>(c10::elementSize(dtypes_.reduce));
}

std::vector<int> ParameterLayout::read_in_float32(Range range) const {
  std::vector<int> found;
  if (!has_copy_) return found;
  for (int index = 0; index < count(); ++index) {
    if (float32_[index] && range.contains(ranges_[index])) found.push_back(index);
  }
  return found;
}

bool ParameterLayout::only_float32(Range range) const {
  if (!has_copy_) return true;
  for (int index = 0; index < count(); ++index) {
    const bool within = ranges_[index].begin < range.end && range.begin < ranges_[index].end;
    if (within && !float32_[index]) return false;
  }
  return true;
}

}  // namespace ddprun
