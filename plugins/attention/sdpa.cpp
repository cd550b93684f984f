// sdpa: PyTorch's scaled_dot_product_attention, whose fused kernels never hold the whole score
// matrix.
#include <ATen/Context.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <array>
#include <optional>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/run_description.h"

namespace ddprun {

/// Of PyTorch's implementations (torch.nn.attention.SDPBackend).
enum class SdpaBackend { automatic, math, flash, efficient, cudnn };
constexpr auto choice_names(SdpaBackend) {
  return std::array{"auto", "math", "flash", "efficient", "cudnn"};
}

/// Which of them PyTorch may take: a setting of the process.
class Allowed {
 public:
  static Allowed now() {
    const at::Context& context = at::globalContext();
    return {context.userEnabledMathSDP(), context.userEnabledFlashSDP(),
            context.userEnabledMemEfficientSDP(), context.userEnabledCuDNNSDP()};
  }
  static Allowed only(SdpaBackend backend) {
    return {backend == SdpaBackend::math, backend == SdpaBackend::flash,
            backend == SdpaBackend::efficient, backend == SdpaBackend::cudnn};
  }
  void set() const {
    at::Context& context = at::globalContext();
    context.setSDPUseMath(math_);
    context.setSDPUseFlash(flash_);
    context.setSDPUseMemEfficient(efficient_);
    context.setSDPUseCuDNN(cudnn_);
  }

 private:
  Allowed(bool math, bool flash, bool efficient, bool cudnn)
      : math_(math), flash_(flash), efficient_(efficient), cudnn_(cudnn) {}
  bool math_, flash_, efficient_, cudnn_;
};

/// Allows one backend alone. Where PyTorch has no kernel of it for the tensors, it throws instead
/// of taking another.
class OnlyBackend {
 public:
  explicit OnlyBackend(SdpaBackend backend) { Allowed::only(backend).set(); }
  ~OnlyBackend() { before_.set(); }
  OnlyBackend(const OnlyBackend&) = delete;
  OnlyBackend& operator=(const OnlyBackend&) = delete;

 private:
  Allowed before_ = Allowed::now();
};

class Sdpa final : public Attention {
 public:
  void declare_options(Options& options) override {
    options.option("backend", &backend_, "which of PyTorch's implementations; auto: it chooses");
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    const bool of_gpus = backend_ == SdpaBackend::efficient || backend_ == SdpaBackend::cudnn;
    if (!of_gpus || run.device != DeviceKind::cpu) return {};
    return Refusal{.reason = "PyTorch has this backend on GPUs alone",
                   .expected = "auto, math or flash on a CPU"};
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    std::optional<OnlyBackend> only;
    if (backend_ != SdpaBackend::automatic) only.emplace(backend_);
    const auto scale = options.scale != 0.0 ? std::optional(options.scale) : std::nullopt;
    return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                            options.causal, scale);
  }

  std::optional<AttentionMemory> memory(const AttentionSizes& sizes) const override {
    if (backend_ == SdpaBackend::math) return {};
    // The log-sum-exp, in float32.
    const double sums = 4 * static_cast<double>(sizes.batch * sizes.heads * sizes.queries);
    return AttentionMemory{.forward = sums, .saved = sums};
  }

 private:
  SdpaBackend backend_ = SdpaBackend::automatic;
};

}  // namespace ddprun

DDPRUN_ATTENTION(ddprun::Sdpa, "sdpa", "PyTorch's scaled_dot_product_attention", "1.1")
