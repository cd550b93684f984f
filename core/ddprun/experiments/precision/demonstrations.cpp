// Loops that add: nothing here may be faster than it looks. A model, its forward under autocast,
// its backward, and what became of the dtypes.
#include "ddprun/experiments/precision/demonstrations.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Half.h>

#include <algorithm>

#include "ddprun/base/ranges.h"
#include "ddprun/plugin/parts/autocast.h"

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

constexpr std::int64_t kSamples = 8;
constexpr std::int64_t kInputs = 20;
constexpr std::int64_t kHidden = 10;
constexpr std::int64_t kClasses = 5;

/// (rows, columns) float32, between -1 and 1: the same on every machine, and no two alike.
at::Tensor numbers(std::int64_t rows, std::int64_t columns, c10::Device device) {
  const at::Tensor counted = at::arange(rows * columns, at::TensorOptions().dtype(at::kFloat));
  return (counted * 0.7).sin().view({rows, columns}).to(device);
}

struct ToyModel {
  explicit ToyModel(c10::Device device)
      : fc1(numbers(kHidden, kInputs, device).requires_grad_()),
        norm_weight(at::ones({kHidden}, at::TensorOptions(device)).requires_grad_()),
        norm_bias(at::zeros({kHidden}, at::TensorOptions(device)).requires_grad_()),
        fc2(numbers(kClasses, kHidden, device).requires_grad_()) {}

  std::vector<at::Tensor> parameters() const { return {fc1, norm_weight, norm_bias, fc2}; }

  at::Tensor fc1;                     // (kHidden, kInputs)
  at::Tensor norm_weight, norm_bias;  // (kHidden,)
  at::Tensor fc2;                     // (kClasses, kHidden)
};

/// The dtype of all of them, or each one that occurs.
std::string types_of(const std::vector<at::Tensor>& tensors) {
  std::string names;
  for (const at::Tensor& tensor : tensors) {
    const std::string name(c10::getDtypeNames(tensor.scalar_type()).first);
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : " and ") + name;
  }
  return names;
}

bool all_finite(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(
      tensors, [](const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); });
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

AutocastDtypes measure_autocast(AutocastType type, c10::Device device) {
  const at::ScalarType cast = type == AutocastType::float16 ? at::kHalf : at::kBFloat16;
  const ToyModel model(device);
  const at::Tensor x = numbers(kSamples, kInputs, device);
  const at::Tensor targets =
      at::arange(kSamples, at::TensorOptions(device).dtype(at::kLong)).remainder(kClasses);
  at::Tensor fc1, relu, norm, logits, loss;
  {
    const AutocastGuard autocast(device.type(), cast);
    fc1 = at::linear(x, model.fc1);
    relu = at::relu(fc1);
    norm = at::layer_norm(relu, {kHidden}, model.norm_weight, model.norm_bias);
    logits = at::linear(norm, model.fc2);
    loss = at::cross_entropy_loss(logits, targets);
  }
  loss.backward();
  const auto gradients = mapped(model.parameters(), &at::Tensor::grad);
  AutocastDtypes out;
  out.tensors = {{"parameters", types_of(model.parameters())},
                 {"fc1", types_of({fc1})},
                 {"ReLU", types_of({relu})},
                 {"layer norm", types_of({norm})},
                 {"logits", types_of({logits})},
                 {"loss", types_of({loss})},
                 {"gradients", types_of(gradients)}};
  out.finite = all_finite({fc1, relu, norm, logits, loss}) && all_finite(gradients);
  out.fc1_by_hand = at::equal(fc1, at::linear(x.to(cast), model.fc1.detach().to(cast)));
  return out;
}

}  // namespace ddprun
