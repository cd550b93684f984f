// fp8: the products of linear layers in 8-bit floating point, e4m3 in the forward and e5m2 for
// gradients (Micikevicius et al. 2022). All else is as under autocast to bfloat16.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/parts/kernel_node.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/state.h"

namespace {

using torch::autograd::variable_list;

constexpr at::ScalarType kForward = at::kFloat8_e4m3fn;
constexpr at::ScalarType kBackward = at::kFloat8_e5m2;
constexpr std::int64_t kMultiple = 16;  // of every dimension: what cuBLAS asks for
constexpr double kLeastAmax = 1e-12;    // a tensor of zeros has a scale too

double largest(at::ScalarType dtype) { return dtype == kForward ? 448.0 : 57344.0; }

/// The largest magnitudes (amax) that one tensor had in its last uses, on its device.
class AmaxHistory {
 public:
  explicit AmaxHistory(std::int64_t length) : length_(length) {}

  /// Returns the largest magnitude of the past, or `amax` if there is no past. It never waits for
  /// the current tensor. If `record`, `amax` then becomes part of the past.
  at::Tensor expect(const at::Tensor& amax, bool record) {
    if (!past_.defined()) past_ = at::zeros_like(amax).repeat({length_});
    const at::Tensor largest = past_.amax();
    const at::Tensor expected = at::where(largest > 0, largest, amax);
    if (record) past_.copy_(at::cat({amax.view({1}), past_.narrow(0, 0, length_ - 1)}));
    return expected;
  }

  void declare_state(ddprun::State& state, const std::string& name, at::Device device) {
    state.tensor(name, past_);
    if (past_.defined()) past_ = past_.to(device);  // one that was read is on the CPU
  }

 private:
  std::int64_t length_;
  at::Tensor past_;  // (length_,) float32, the last first; 0: not yet
};

/// What delayed scaling remembers of one layer. It keeps the layer's weight alive.
struct Layer {
  at::Tensor weight;
  AmaxHistory of_input, of_weight, of_gradient;
};

/// A matrix in 8 bits: values * scale is the matrix, rounded.
struct Quantized {
  at::Tensor values;
  at::Tensor scale;  // float32 scalar ()

  Quantized transposed() const { return {values.t().contiguous(), scale}; }
};

/// With rows of zeros below, which change no scale: a text that the model writes has any length.
at::Tensor padded(const at::Tensor& matrix) {
  const std::int64_t rest = matrix.size(0) % kMultiple;
  return rest == 0 ? matrix : at::constant_pad_nd(matrix, {0, 0, 0, kMultiple - rest});
}

/// Scales the matrix so that its expected largest magnitude becomes the dtype's largest. What
/// exceeds it is clamped. Without `history` (null) the largest magnitude is that of this matrix.
Quantized quantize(const at::Tensor& matrix, at::ScalarType dtype, AmaxHistory* history,
                   bool record) {
  const at::Tensor wide = matrix.to(at::kFloat);
  at::Tensor amax = wide.abs().amax();
  if (history != nullptr) amax = history->expect(amax, record);
  const at::Tensor scale = amax.clamp_min(kLeastAmax) / largest(dtype);
  return {(wide / scale).clamp(-largest(dtype), largest(dtype)).to(dtype).contiguous(), scale};
}

/// a (rows, inner) b (columns, inner)^T: both operands with `inner` contiguous, as a GPU wants
/// them. The CPU computes the same from the same operands, but not by at::_scaled_mm. Where that is
/// oneDNN's, it is a reference that takes 250 ms for 128 x 128 x 128; elsewhere it does just what
/// this code does.
at::Tensor product(const Quantized& a, const Quantized& b, at::ScalarType out, bool fast_sums) {
  if (a.values.is_cpu()) {
    const at::Tensor sums = at::mm(a.values.to(at::kFloat), b.values.to(at::kFloat).t());
    return (sums * (a.scale * b.scale)).to(out);
  }
  return at::_scaled_mm(a.values, b.values.t(), a.scale, b.scale, /*bias=*/{}, /*scale_result=*/{},
                        out, fast_sums);
}

struct Fp8LinearBackward final : ddprun::KernelNode {
  std::vector<std::int64_t> x_sizes;
  at::ScalarType x_dtype = at::kFloat;
  std::shared_ptr<Layer> layer;  // null: current scaling

  std::string name() const override { return "Fp8LinearBackward"; }

  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take another precision"; }

  variable_list backward(variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];  // (..., out)
    if (!dy.defined()) return variable_list(2);
    const auto [x_values, x_scale, weight_values, weight_scale] = saved<4>();
    const Quantized x = {x_values, x_scale};                 // (rows, in)
    const Quantized weight = {weight_values, weight_scale};  // (out, in)
    const Quantized rows = quantize(dy.reshape({-1, dy.size(-1)}), kBackward,
                                    layer ? &layer->of_gradient : nullptr, /*record=*/true);
    variable_list results(2);
    if (task_should_compute_output(0)) {
      results[0] =
          product(rows, weight.transposed(), at::kBFloat16, false).view(x_sizes).to(x_dtype);
    }
    if (task_should_compute_output(1)) {  // not rounded before it is added to others
      results[1] = product(rows.transposed(), x.transposed(), at::kFloat, false);
    }
    return results;
  }
};

/// A tensor's scale comes from the tensor itself, or from its last uses.
enum class Scaling { current, delayed };
constexpr auto choice_names(Scaling) { return std::array{"current", "delayed"}; }

class Fp8 final : public ddprun::Precision {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option(
        "scaling", &scaling_,
        "a tensor's scale from its own largest magnitude, or from those of its last uses");
    options.option("history", &history_, "with delayed scaling: uses that are remembered",
                   {.min = 1, .max = 65536});
    options.option("reduce_dtype", &reduce_dtype_, "dtype in which gradients travel between ranks");
  }

  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (auto refusal =
            ddprun::needs_reference_kernels(run, "the fused kernels do not multiply in 8 bits")) {
      return refusal;
    }
    if (scaling_ == Scaling::current && history_ != kHistory) {
      return ddprun::Refusal{.reason = "history has no effect with scaling: current",
                             .expected = "scaling: delayed, or no history",
                             .hint = "remove one of them"};
    }
    for (const auto& [what, size] :
         {std::pair{"d_model", run.heads * run.head_dim},
          {"d_ff", run.d_ff},
          {"tokens in a micro-batch", run.micro_batch * run.context_length}}) {
      if (size % kMultiple == 0) continue;
      return ddprun::Refusal{
          .reason = std::string("products in 8 bits need multiples of 16, and ") + what + " is " +
                    std::to_string(size),
          .expected = std::string(what) + " a multiple of 16"};
    }
    return ddprun::below_capability(run, 89, "products in 8 bits");
  }

  void convert(const std::vector<ddprun::NamedTensor>& parameters) override {
    device_ = parameters.front().tensor.device().type();
    parameters_ = parameters;
  }

  void declare_state(ddprun::State& state) override {
    if (scaling_ == Scaling::current) return;
    for (const ddprun::NamedTensor& each : parameters_) {
      const auto layer = layer_of(each.tensor);
      const at::Device device = each.tensor.device();
      layer->of_input.declare_state(state, each.name + ".input", device);
      layer->of_weight.declare_state(state, each.name + ".weight", device);
      layer->of_gradient.declare_state(state, each.name + ".gradient", device);
    }
  }

  ddprun::PrecisionDtypes dtypes() const override {
    return {.buffers = {.compute = at::kBFloat16, .reduce = ddprun::dtype_of(reduce_dtype_)},
            .products = "float8"};
  }

  std::unique_ptr<Guard> forward_guard() override {
    return std::make_unique<ddprun::AutocastGuard>(device_, at::kBFloat16);
  }

  Linear linear() override {
    return [this](const at::Tensor& x, const at::Tensor& weight) { return multiply(x, weight); };
  }

 private:
  static constexpr std::int64_t kHistory = 16;

  at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight) {
    const auto node = ddprun::make_node<Fp8LinearBackward>(x, weight);
    const std::int64_t row_count = x.numel() / x.size(-1);
    check(node ? row_count : 0, weight);
    const auto layer = scaling_ == Scaling::delayed ? layer_of(weight) : nullptr;
    at::Tensor y;
    {
      const ddprun::KernelGuard guard;
      const bool record = node != nullptr;  // an evaluation leaves the training's state as it is
      const Quantized rows = quantize(padded(x.reshape({-1, x.size(-1)})), kForward,
                                      layer ? &layer->of_input : nullptr, record);
      const auto matrix = quantize(weight, kForward, layer ? &layer->of_weight : nullptr, record);
      std::vector<std::int64_t> sizes = x.sizes().vec();
      sizes.back() = weight.size(0);
      y = product(rows, matrix, at::kBFloat16, /*fast_sums=*/true)
              .narrow(0, 0, row_count)
              .view(sizes);
      if (node) {
        node->save({rows.values, rows.scale, matrix.values, matrix.scale});
        node->x_sizes = x.sizes().vec();
        node->x_dtype = x.scalar_type();
        node->layer = layer;
      }
    }
    if (node) torch::autograd::set_history(y, node);
    return y;
  }

  static void check(std::int64_t rows, const at::Tensor& weight) {
    if (rows % kMultiple == 0 && weight.size(0) % kMultiple == 0 &&
        weight.size(1) % kMultiple == 0) {
      return;
    }
    throw ddprun::ConfigError({.what = "products in 8 bits need multiples of 16",
                               .where = "precision",
                               .got = std::to_string(rows) + " rows times a weight of " +
                                      std::to_string(weight.size(0)) + " x " +
                                      std::to_string(weight.size(1)),
                               .expected = "multiples of 16",
                               .hint = "other sizes, or at::linear for this layer"});
  }

  std::shared_ptr<Layer> layer_of(const at::Tensor& weight) {
    std::shared_ptr<Layer>& layer = layers_[weight.unsafeGetTensorImpl()];
    if (!layer) {
      const AmaxHistory none(history_);
      layer = std::make_shared<Layer>(Layer{weight, none, none, none});
    }
    return layer;
  }

  Scaling scaling_ = Scaling::current;
  std::int64_t history_ = kHistory;
  ddprun::ReduceDtype reduce_dtype_ = ddprun::ReduceDtype::float32;
  c10::DeviceType device_ = c10::kCPU;
  std::vector<ddprun::NamedTensor> parameters_;
  std::map<const c10::TensorImpl*, std::shared_ptr<Layer>> layers_;
};

}  // namespace

DDPRUN_PRECISION(Fp8, "fp8", "linear layers' products in 8 bits, the rest as bf16_mixed", "1.0")
