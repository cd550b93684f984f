// sdpa: PyTorch's scaled_dot_product_attention, whose fused kernels never hold the whole score
// matrix.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
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

/// Allows one backend alone, which is a setting of the process. Where PyTorch has no kernel of it
/// for the tensors, it throws instead of taking another.
class OnlyBackend {
 public:
  explicit OnlyBackend(SdpaBackend backend) {
    allow(backend == SdpaBackend::math, backend == SdpaBackend::flash,
          backend == SdpaBackend::efficient, backend == SdpaBackend::cudnn);
  }
  ~OnlyBackend() { allow(math_, flash_, efficient_, cudnn_); }
  OnlyBackend(const OnlyBackend&) = delete;
  OnlyBackend& operator=(const OnlyBackend&) = delete;

 private:
  void allow(bool math, bool flash, bool efficient, bool cudnn) {
    context_.setSDPUseMath(math);
    context_.setSDPUseFlash(flash);
    context_.setSDPUseMemEfficient(efficient);
    context_.setSDPUseCuDNN(cudnn);
  }

  at::Context& context_ = at::globalContext();
  const bool math_ = context_.userEnabledMathSDP(), flash_ = context_.userEnabledFlashSDP(),
             efficient_ = context_.userEnabledMemEfficientSDP(),
             cudnn_ = context_.userEnabledCuDNNSDP();
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
    const at::Tensor& first_keys = options.first_keys;
    const bool causal = options.causal && !first_keys.defined();
    return at::scaled_dot_product_attention(
        q, k, v, first_keys.defined() ? seen(options, k) : std::optional<at::Tensor>(),
        /*dropout_p=*/0.0, causal, scale);
  }

  bool takes_documents() const override { return true; }

  std::optional<AttentionMemory> memory(const AttentionSizes& sizes) const override {
    if (backend_ == SdpaBackend::math) return {};
    // The log-sum-exp, in float32.
    const double sums = 4 * static_cast<double>(sizes.batch * sizes.heads * sizes.queries);
    // A byte a pair, and PyTorch's kernel for the CPU takes it in the dtype of q.
    const double pairs = static_cast<double>(sizes.batch * sizes.queries * sizes.keys);
    const double mask =
        sizes.documents ? pairs * (1 + static_cast<double>(sizes.element_bytes)) : 0;
    return AttentionMemory{.forward = sums + mask, .saved = sums + mask};
  }

 private:
  // (batch, 1, queries, keys): the keys of its document that a query sees. A mask says all of it,
  // as PyTorch's kernels take either that or the word "causal".
  static at::Tensor seen(const AttentionOptions& options, const at::Tensor& k) {
    const at::Tensor keys = at::arange(k.size(-2), options.first_keys.options());
    const at::Tensor of_document = keys >= options.first_keys.unsqueeze(-1);
    const at::Tensor queries = at::arange(options.first_keys.size(1), keys.options());
    return (options.causal ? of_document & (keys <= queries.unsqueeze(-1)) : of_document)
        .unsqueeze(1);
  }

  SdpaBackend backend_ = SdpaBackend::automatic;
};

}  // namespace ddprun

DDPRUN_ATTENTION(ddprun::Sdpa, "sdpa", "PyTorch's scaled_dot_product_attention", "1.1")
