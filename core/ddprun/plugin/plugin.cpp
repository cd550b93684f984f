// Defaults of the plugin interfaces: a plugin says only what differs.
#include "ddprun/plugin/plugin.h"

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

Plugin::~Plugin() = default;
void Plugin::declare_options(Options&) {}
std::optional<Refusal> Plugin::unsupported(const RunDescription&) const { return {}; }

Strategy::~Strategy() = default;
void Strategy::on_gradient(int) {}
void Strategy::optimizer_step(Optimizer& optimizer) { optimizer.update_all(); }
bool Strategy::reports_ranges() const { return false; }

void StrategyContext::broadcast_parameters() {
  group_.broadcast(buffers_.parameters(buffers_.all()), 0, "parameters").wait();
  buffers_.parameters_changed(buffers_.all());
}
void StrategyContext::run_before_forward() const {
  for (const auto& callback : before_forward_) {
    guard_before_forward_ ? guard_before_forward_(callback) : callback();
  }
}

Precision::~Precision() = default;
Precision::Guard::~Guard() = default;
void Precision::convert(const std::vector<NamedTensor>&) {}
at::ScalarType Precision::compute_dtype() const { return at::kFloat; }
at::ScalarType Precision::reduce_dtype() const { return at::kFloat; }
at::ScalarType Precision::parameter_dtype() const { return at::kFloat; }
at::ScalarType Precision::updated_dtype() const { return at::kFloat; }
at::ScalarType Precision::moments_dtype() const { return at::kFloat; }
std::unique_ptr<Precision::Guard> Precision::forward_guard() { return nullptr; }
Precision::Linear Precision::linear() { return {}; }
at::Tensor Precision::scale_loss(const at::Tensor& loss) { return loss; }
std::string Precision::matmul_dtype() const {
  const at::ScalarType dtype = compute_dtype();
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
}
GradientScale Precision::gradient_scale(const at::Tensor&) { return {}; }
bool Precision::scales_loss() const { return false; }

std::optional<Refusal> below_capability(const RunDescription& run, int least,
                                        const std::string& what) {
  if (run.device == DeviceKind::cpu || run.compute_capability >= least) return {};
  const auto text = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  const std::string expected = "compute capability " + text(least) + " or more";
  return Refusal{.reason = what + " need a GPU of " + expected + ", and one here has " +
                           text(run.compute_capability),
                 .expected = expected};
}

Attention::~Attention() = default;

}  // namespace ddprun
