// Lays parameters one after another, in the order in which backward completes them.
#include "ddprun/optim/parameter_layout.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_check.h"
#include "ddprun/optim/parameter_reads.h"

namespace ddprun {

namespace {

constexpr std::int64_t kAlignment = 64 / sizeof(float);  // elements; a cache line, and ATen's own

std::int64_t align(std::int64_t elements, std::int64_t to) { return (elements + to - 1) / to * to; }

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<NamedTensor>& parameters,
                                 const BufferDtypes& dtypes, KernelSet kernels, int ranks,
                                 int ranks_per_host)
    : ranks_(ranks), ranks_per_host_(ranks_per_host == 0 ? ranks : ranks_per_host) {
  check_list(parameters);
  check_dtypes(dtypes);
  place(parameters);
  reads_ = std::make_shared<const ParameterReads>(parameters, ranges_, dtypes, kernels);
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
    units_.back().used_elsewhere |= parameter->used_elsewhere;
    unit_of_.push_back(static_cast<int>(units_.size()) - 1);
    names_.push_back(parameter->name);
    ranges_.push_back({end, end + size});
    sizes_.push_back(parameter->tensor.sizes().vec());
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
  return range.size() * static_cast<std::int64_t>(c10::elementSize(dtypes().reduce));
}

const BufferDtypes& ParameterLayout::dtypes() const { return reads_->dtypes(); }

}  // namespace ddprun
