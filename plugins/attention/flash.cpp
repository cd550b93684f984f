// flash: FlashAttention-2 on the CPU (Dao 2023). Scores exist by tiles alone, in forward and
// backward.
#include "ddprun/kernels/attention/flash_of_tensors.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/kernel_node.h"
#include "ddprun/plugin/run_description.h"

namespace {

using namespace ddprun::kernels;
using torch::autograd::variable_list;

FlashMask mask_of(const ddprun::AttentionOptions& options) {
  return {.causal = options.causal, .first_keys = options.first_keys};
}

struct FlashAttentionBackward final : ddprun::KernelNode {
  ddprun::AttentionOptions options;

  std::string name() const override { return "FlashAttentionBackward"; }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take attention eager"; }

  variable_list backward(variable_list&& gradients) override {
    const auto [q, k, v, log_sum_exp, out] = saved<5>();
    const auto [dq, dk, dv] =
        flash_backward(gradients[0], q, k, v, {out, log_sum_exp}, mask_of(options), options.scale);
    return {dq, dk, dv};
  }
};

FlashOutput forward_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const ddprun::AttentionOptions& options) {
  const ddprun::KernelGuard guard;
  return flash_forward(q, k, v, mask_of(options), options.scale);
}

class Flash final : public ddprun::Attention {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.device != ddprun::DeviceKind::cpu) {
      return ddprun::Refusal{.reason = "it runs on the CPU alone", .expected = "world.device cpu"};
    }
    const at::ScalarType dtype = run.dtypes.compute;
    if (dtype == at::kFloat || dtype == at::kBFloat16) return {};
    return ddprun::Refusal{
        .reason = "it does not compute in " + std::string(c10::getDtypeNames(dtype).first),
        .expected = "a precision that computes in float32 or bfloat16"};
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    TORCH_CHECK(q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16,
                "attention \"flash\" computes in float32 or bfloat16, not in ", q.scalar_type());
    TORCH_CHECK(options.scale >= 0.0, "attention \"flash\" needs a scale that is not negative");
    TORCH_CHECK(k.size(2) > 0, "attention \"flash\" needs at least one key");
    const auto node = ddprun::make_node<FlashAttentionBackward>(q, k, v);
    const auto [out, log_sum_exp] = forward_of(q, k, v, options);
    if (node) {
      node->options = options;
      torch::autograd::set_history(out, node);
      node->save({q, k, v, log_sum_exp}, {out});
    }
    return out;
  }

  bool takes_meta() const override { return true; }
  bool takes_documents() const override { return true; }

  std::optional<ddprun::AttentionMemory> memory(
      const ddprun::AttentionSizes& sizes) const override {
    // A float32 a query: the log-sum-exp; in backward the sum over the output and its gradient.
    const double queries = 4 * static_cast<double>(sizes.batch * sizes.heads * sizes.queries);
    return ddprun::AttentionMemory{.forward = queries, .saved = queries, .backward = queries};
  }
};

}  // namespace

DDPRUN_ATTENTION(Flash, "flash", "FlashAttention-2 on the CPU: no more scores than a tile a thread",
                 "1.0")
