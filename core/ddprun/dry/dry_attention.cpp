// A node of autograd that keeps as many bytes as the formula says.
#include "ddprun/dry/dry_device.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/called.h"
#include "ddprun/plugin/parts/kernel_node.h"

namespace ddprun {

namespace {

using torch::autograd::variable_list;

at::Tensor bytes_like(const at::Tensor& tensor, double bytes) {
  return at::empty({static_cast<std::int64_t>(bytes)}, tensor.options().dtype(at::kByte));
}

/// (batch, heads, time, width), laid out as (batch, time, heads, width).
at::Tensor output_like(const at::Tensor& q) {
  return at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
}

struct DryAttentionNode final : KernelNode {
  double backward_bytes = 0;
  bool causal = true;

  std::string name() const override { return "DryAttentionBackward"; }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take attention eager"; }

  variable_list backward(variable_list&&) override {
    const auto [q, k, v, kept, out] = saved<5>();
    const at::Tensor scratch = bytes_like(q, backward_bytes);
    RECORD_FUNCTION("ddprun::flash_attention_backward",
                    std::vector<c10::IValue>({out, q, k, v, causal}));
    return {output_like(q), output_like(k), output_like(v)};
  }
};

class DryAttention final : public Attention {
 public:
  explicit DryAttention(std::shared_ptr<Attention> of) : of_(std::move(of)) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    const AttentionSizes sizes{.batch = q.size(0),
                               .heads = q.size(1),
                               .queries = q.size(2),
                               .keys = k.size(2),
                               .head_dim = q.size(3),
                               .causal = options.causal,
                               .element_bytes = static_cast<std::int64_t>(q.element_size()),
                               .documents = options.first_keys.defined()};
    const auto memory = ddprun::called(*of_, "memory()", [&] { return of_->memory(sizes); });
    if (!memory) {
      throw Error({.what = "the attention does not say what memory it takes",
                   .where = "attention " + of_->called,
                   .got = "no memory()",
                   .expected = "Attention::memory(), or takes_meta()",
                   .hint = "take another attention to predict memory, or run it"});
    }
    const auto node = make_node<DryAttentionNode>(q, k, v);
    at::Tensor out, kept;
    {
      const KernelGuard quiet;
      out = output_like(q);
      const at::Tensor scratch = bytes_like(q, memory->forward - memory->saved);
      kept = bytes_like(q, memory->saved);
      RECORD_FUNCTION("ddprun::flash_attention",
                      std::vector<c10::IValue>({q, k, v, options.causal}));
    }
    if (node) {
      node->backward_bytes = memory->backward;
      node->causal = options.causal;
      torch::autograd::set_history(out, node);
      node->save({q, k, v, kept}, {out});
    }
    return out;
  }

 private:
  std::shared_ptr<Attention> of_;
};

}  // namespace

std::shared_ptr<Attention> dry_attention(std::shared_ptr<Attention> of) {
  return std::make_shared<DryAttention>(std::move(of));
}

}  // namespace ddprun
