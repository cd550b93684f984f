// A precision that computes in another dtype than it declares, or scales gradients back by another
// factor than the loss, if its options say so: the proof's tests.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/precision.h"

namespace ddprun::planted {

class PlantedScaler final : public LossScaler {
 public:
  double up = 0, down = 0;  ///< factor of the loss, divisor of gradients
  std::string wrong = "none";

  at::Tensor scale(const at::Tensor& loss) override {
    const bool other = wrong == "one_other" && loss.requires_grad() && ++calls_ % 4 == 3;
    // In place: the loss that is told is another.
    return at::Tensor(loss).mul_(other ? 2 * up : up);
  }
  GradientScale gradient_scale(const std::vector<at::Tensor>& gradients) override {
    if (wrong == "writes_gradients") at::Tensor(gradients.front()).add_(1e-3);
    const auto options = gradients.front().options().dtype(at::kFloat);
    const double overflow = wrong == "skips" ? 1 : 0;
    return {.factor = at::full({}, 1 / down, options), .overflow = at::full({}, overflow, options)};
  }

 private:
  int calls_ = 0;
};

/// Other values while it lives.
class Halved final : public Precision::Guard {
 public:
  explicit Halved(const std::vector<at::Tensor>& values) : values_(values) { multiply(0.5); }
  ~Halved() override { multiply(2); }

 private:
  void multiply(double factor) {
    for (const at::Tensor& each : values_) each.data().mul_(factor);
  }

  const std::vector<at::Tensor>& values_;
};

class PlantedPrecision final : public Precision {
 public:
  void declare_options(Options& options) override {
    options.option("scales", &scaler_.up, "factor of the loss; 0: none");
    options.option("rounds", &rounds_, "which parameters, to bfloat16 and back, at the start",
                   {.one_of = {"nothing", "trained", "frozen"}});
    options.option("scaler", &scaler_.wrong, "what is wrong with how the loss is scaled",
                   {.one_of = {"none", "writes_gradients", "one_other", "skips"}});
    options.option("hooks", &hooks_, "parameters halve their gradients by hooks");
    options.option("evaluates_other", &evaluates_other_, "norms are halved without gradients");
    options.option("linear", &linear_, "what is wrong with linear layers",
                   {.one_of = {"none", "halves_gradients", "writes_weight", "rounds_input",
                               "loses_tail", "loses_columns", "loses_rows", "reuses_scratch",
                               "of_first_sample", "in_11_bits"}});
    options.option("scales_back", &scaler_.down, "divisor of the gradients then");
    options.option("declares", &declares_, "the dtype of the products, as told");
    options.option("computes", &computes_, "the dtype of the products, in fact");
    options.option("declares_late", &declares_late_, "the format of the products, after a while");
  }
  PrecisionDtypes dtypes() const override {
    return {.buffers = {.compute = dtype_of(declares_)},
            .products = forwards_ > 16 ? declares_late_ : ""};
  }
  std::unique_ptr<Guard> forward_guard() override {
    ++forwards_;
    if (evaluates_other_ && !c10::GradMode::is_enabled()) {
      return std::make_unique<Halved>(norms_);
    }
    if (computes_ == ReduceDtype::float32) return nullptr;
    return std::make_unique<AutocastGuard>(c10::kCPU, dtype_of(computes_));
  }

  void convert(const std::vector<NamedTensor>& parameters) override {
    for (const NamedTensor& each : parameters) {
      if (each.tensor.dim() == 1) norms_.push_back(each.tensor);
      if (hooks_ && each.tensor.requires_grad()) {
        each.tensor.register_hook([](const at::Tensor& gradient) { return 0.5 * gradient; });
      }
      const std::string_view role = each.tensor.requires_grad() ? "trained" : "frozen";
      if (rounds_ != role) continue;
      const at::Tensor values = each.tensor.data();
      values.copy_(values.to(at::kBFloat16));
    }
  }

  LossScaler* loss_scaler() override { return scaler_.up == 0 ? nullptr : &scaler_; }

  Linear linear() override {
    if (linear_ == "none") return {};
    return [this](const at::Tensor& x, const at::Tensor& weight) {
      const std::string& wrong = linear_;
      if (wrong == "writes_weight") return written(x, weight);
      if (wrong == "rounds_input") return rounded_after(x, weight);
      if (wrong == "loses_tail") return without_tail(x, weight);
      if (wrong == "loses_columns") return of_columns(512, x, weight);
      if (wrong == "in_11_bits") return in_11_bits(x, weight);
      if (wrong == "loses_rows") return of_rows(64, x, weight);
      if (wrong == "reuses_scratch") return with_scratch_for_backward(x, weight);
      if (wrong == "of_first_sample") return of_first_sample(x, weight);
      const at::Tensor y = at::linear(x, weight);
      return y.detach() + 0.5 * (y - y.detach());
    };
  }

 private:
  static at::Tensor of_columns(std::int64_t most, const at::Tensor& x, const at::Tensor& weight) {
    const std::int64_t count = std::min(most, weight.size(1));
    return at::linear(x.narrow(-1, 0, count), weight.narrow(1, 0, count));
  }

  /// Of more than 512 columns, as TF32 has them.
  static at::Tensor in_11_bits(const at::Tensor& x, const at::Tensor& weight) {
    if (weight.size(1) <= 512) return at::linear(x, weight);
    const auto rounded = [](const at::Tensor& each) { return each.to(at::kHalf).to(at::kFloat); };
    return at::linear(rounded(x), rounded(weight));
  }

  /// The columns that do not fill a vector of 16 are left out.
  static at::Tensor without_tail(const at::Tensor& x, const at::Tensor& weight) {
    return of_columns(std::max<std::int64_t>(16, weight.size(1) / 16 * 16), x, weight);
  }

  /// Those behind are as zeros give them.
  static at::Tensor of_rows(std::int64_t most, const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor rows = at::linear(x, weight);
    const at::Tensor count = at::arange(rows.numel() / rows.size(-1), rows.options());
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes.back() = 1;
    return rows * count.lt(most).to(rows.scalar_type()).view(sizes);
  }

  static at::Tensor written(const at::Tensor& x, const at::Tensor& weight) {
    weight.data().mul_(1.001);
    return at::linear(x, weight);
  }

  /// The layers that read x after this one read other values.
  static at::Tensor rounded_after(const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor y = at::linear(x, weight);
    x.data().copy_(x.to(at::kBFloat16));
    return y;
  }

  /// As if backward read memory that the next call writes.
  at::Tensor with_scratch_for_backward(const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor y = at::linear(x, weight);
    if (y.requires_grad()) {
      y.register_hook([this, call = ++calls_](const at::Tensor& dy) {
        return call == calls_ ? dy : dy.roll(1, -1);
      });
    }
    return y;
  }

  /// The gradient of the weight is that of the first of several samples.
  static at::Tensor of_first_sample(const at::Tensor& x, const at::Tensor& weight) {
    if (x.dim() == 2) return at::linear(x, weight);
    const at::Tensor first = at::linear(x.detach().narrow(0, 0, 1), weight);
    return at::linear(x, weight.detach()) + (first - first.detach()).sum(0, true);
  }

  PlantedScaler scaler_;
  std::string rounds_ = "nothing";
  std::string linear_ = "none";
  bool hooks_ = false;
  bool evaluates_other_ = false;
  std::vector<at::Tensor> norms_;
  int calls_ = 0;  ///< with gradients
  int forwards_ = 0;
  std::string declares_late_;
  ReduceDtype declares_ = ReduceDtype::float32;
  ReduceDtype computes_ = ReduceDtype::float32;
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_precision, ddprun::planted::PlantedPrecision, precision, "planted",
                 "planted", "1.0")
