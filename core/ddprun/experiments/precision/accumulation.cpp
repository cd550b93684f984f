// Loops that add: nothing here may be faster than it looks.
#include "ddprun/experiments/precision/demonstrations.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Half.h>

namespace ddprun {

namespace {

template <class Sum, class Addend>
Accumulated add_scalars(const DemonstrationConfig& config) {
  const auto addend = static_cast<Addend>(static_cast<float>(config.addend));
  Sum sum = 0;
  for (std::int64_t i = 0; i < config.count; ++i) {
    sum = static_cast<Sum>(static_cast<float>(sum) + static_cast<float>(addend));
  }
  return {static_cast<float>(sum), static_cast<float>(addend)};
}

}  // namespace

Accumulated accumulate_by_tensors(const DemonstrationConfig& config, c10::Device device) {
  const at::TensorOptions options(device);
  const auto added = config.sum == SumTypes::float32 ? at::kFloat : at::kHalf;
  const auto summed = config.sum == SumTypes::float16 ? at::kHalf : at::kFloat;
  const at::Tensor addend = at::full({}, config.addend, options.dtype(added));
  const at::Tensor sum = at::zeros({}, options.dtype(summed));
  const bool converted = config.sum == SumTypes::converted_float16_to_float32;
  for (std::int64_t i = 0; i < config.count; ++i) {
    sum.add_(converted ? addend.to(at::kFloat) : addend);
  }
  return {sum.item<double>(), addend.item<double>()};
}

Accumulated accumulate_by_scalars(const DemonstrationConfig& config) {
  switch (config.sum) {
    case SumTypes::float32:
      return add_scalars<float, float>(config);
    case SumTypes::float16:
      return add_scalars<c10::Half, c10::Half>(config);
    case SumTypes::float16_to_float32:
    case SumTypes::converted_float16_to_float32:
      return add_scalars<float, c10::Half>(config);
  }
  return {};
}

}  // namespace ddprun
