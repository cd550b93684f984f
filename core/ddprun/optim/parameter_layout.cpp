// Lays parameters one after another, in the order in which backward completes them.
#include "ddprun/optim/parameter_layout.h"

#include <ATen/ceil_div.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/layout_data.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_check.h"

namespace ddprun {

namespace {

constexpr std::int64_t kAlignment = 64 / sizeof(float);  // elements; a cache line, and ATen's own

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<NamedTensor>& parameters,
                                 const BufferDtypes& dtypes, KernelSet kernels, int ranks,
                                 int ranks_per_host) {
  check_list(parameters);
  check_dtypes(dtypes);
  const auto data = std::make_shared<Data>();
  data->dtypes = dtypes;
  // The model's tensors are views of it, or fused kernels read it.
  data->has_copy = dtypes.model != dtypes.parameters ||
                   (kernels == KernelSet::fused && dtypes.compute != at::kFloat);
  data->ranks = ranks;
  data->ranks_per_host = ranks_per_host == 0 ? ranks : ranks_per_host;
  data->place(parameters);
  data->choose_dtypes(parameters);
  data_ = data;
}

void ParameterLayout::Data::place(const std::vector<NamedTensor>& parameters) {
  std::int64_t end = 0;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const int index = static_cast<int>(names.size());
    if (units.empty() || units.back().name != parameter->unit) {
      end = at::round_up(end, kAlignment * ranks);
      if (!units.empty()) units.back().range.end = end;
      units.push_back({.name = parameter->unit, .first = index, .range = {end, end}});
    }
    const std::int64_t size = parameter->tensor.numel();
    units.back().last = index;
    units.back().used_elsewhere |= parameter->used_elsewhere;
    unit_of.push_back(static_cast<int>(units.size()) - 1);
    names.push_back(parameter->name);
    ranges.push_back({end, end + size});
    sizes.push_back(parameter->tensor.sizes().vec());
    end = at::round_up(end + size, kAlignment);
    parameter_count += size;
  }
  units.back().range.end = at::round_up(end, kAlignment * ranks);
  std::ranges::reverse(units);
  for (int& unit : unit_of) unit = static_cast<int>(units.size()) - 1 - unit;
}

void ParameterLayout::Data::choose_dtypes(const std::vector<NamedTensor>& parameters) {
  std::vector<bool> float32;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    // Tensors that are a copy themselves have no other place to be read from.
    float32.push_back(has_copy && parameter->read_in_float32 && dtypes.model == at::kFloat);
    copied_too.push_back(float32.back() && parameter->read_in_products);
  }
  for (Unit& unit : units) {
    bool copied = false;
    for (int index = unit.first; index <= unit.last; ++index) {
      if (float32[index]) unit.norms.push_back(index);
      copied |= copied_too[index];
    }
    const bool all_in_float32 = std::ssize(unit.norms) == unit.last + 1 - unit.first;
    if (all_in_float32) unit.norms.clear();  // an embedding
    unit.dtype = has_copy && !all_in_float32 ? dtypes.compute : dtypes.parameters;
    unit.gathered_bytes = bytes_of(unit.range.size(), unit.dtype);
    if (all_in_float32 && copied)
      unit.gathered_bytes += bytes_of(unit.range.size(), dtypes.compute);
    if (has_copy && (!all_in_float32 || copied))
      this->copied.end = std::max(this->copied.end, unit.range.end);
  }
}

int ParameterLayout::count() const { return static_cast<int>(data_->names.size()); }
const std::vector<std::string>& ParameterLayout::names() const { return data_->names; }
const std::vector<std::int64_t>& ParameterLayout::sizes(int index) const {
  return data_->sizes[index];
}
Range ParameterLayout::range(int index) const { return data_->ranges[index]; }
std::int64_t ParameterLayout::parameter_count() const { return data_->parameter_count; }
bool ParameterLayout::has_copy() const { return data_->has_copy; }
Range ParameterLayout::copied() const { return data_->copied; }
const std::vector<Unit>& ParameterLayout::units() const { return data_->units; }
int ParameterLayout::unit_of(int index) const { return data_->unit_of[index]; }
int ParameterLayout::ranks() const { return data_->ranks; }
int ParameterLayout::ranks_per_host() const { return data_->ranks_per_host; }

Range ParameterLayout::with_padding(int index) const {
  const bool last = index + 1 == count();
  return {range(index).begin, last ? all().end : range(index + 1).begin};
}

Range ParameterLayout::slice(Range range, int part, int parts) const {
  if (parts == 0) parts = ranks();
  TORCH_CHECK(range.size() % ranks() == 0, "a range that is not made of whole units has no slices");
  TORCH_CHECK(ranks() % parts == 0, parts, " slices for ", ranks(), " ranks");
  const std::int64_t size = range.size() / parts;
  return {range.begin + part * size, range.begin + (part + 1) * size};
}

std::int64_t ParameterLayout::gradient_bytes(Range range) const {
  return bytes_of(range.size(), data_->dtypes.reduce);
}

std::int64_t ParameterLayout::parameter_bytes(Range range) const {
  return bytes_of(range.size(), data_->dtypes.parameters);
}

}  // namespace ddprun
