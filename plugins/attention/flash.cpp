// flash: FlashAttention-2 on the CPU (Dao 2023). Scores exist by tiles alone, in forward and
// backward.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <memory>
#include <type_traits>

#include "ddprun/kernels/flash_attention.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/kernel_node.h"

namespace {

using namespace ddprun::kernels;
using torch::autograd::variable_list;

/// Calls f with a value of the dtype's C++ type.
template <typename F>
void with_type(at::ScalarType dtype, const F& f) {
  if (dtype == at::kFloat) {
    f(float{});
  } else {
    f(bf16{});
  }
}

/// (batch, heads, time, width) laid out as (batch, time, heads, width), as projections want it.
at::Tensor empty_heads(const AttentionShape& shape, std::int64_t time,
                       const at::TensorOptions& options) {
  return at::empty({shape.batch, time, shape.heads, shape.width}, options).transpose(1, 2);
}

/// The tensor as the kernels take it: rows contiguous, padded with zeros to a width that they have,
/// and, so that pairs of bfloat16 lie alike in all of them, an even number of values apart.
at::Tensor with_rows(const at::Tensor& tensor) {
  const std::int64_t missing =
      (kAttentionWidthUnit - tensor.size(3) % kAttentionWidthUnit) % kAttentionWidthUnit;
  if (missing > 0) return at::constant_pad_nd(tensor, {0, missing}).contiguous();
  return tensor.stride(3) == 1 && tensor.stride(2) % 2 == 0 ? tensor : tensor.contiguous();
}

template <typename T>
HeadsOf<T> heads_of(const at::Tensor& tensor) {
  return {static_cast<std::remove_const_t<T>*>(tensor.data_ptr()), tensor.stride(0),
          tensor.stride(1), tensor.stride(2)};
}

AttentionShape shape_of(const at::Tensor& q, const at::Tensor& k,
                        const ddprun::AttentionOptions& options) {
  const auto width = static_cast<double>(q.size(3));
  const double scale = options.scale != 0.0 ? options.scale : 1.0 / std::sqrt(width);
  const std::int64_t padded =
      (q.size(3) + kAttentionWidthUnit - 1) / kAttentionWidthUnit * kAttentionWidthUnit;
  return {q.size(0),
          q.size(1),
          q.size(2),
          k.size(2),
          padded,
          options.causal,
          static_cast<float>(scale)};
}

struct FlashAttentionBackward final : ddprun::KernelNode {
  AttentionShape shape;

  std::string name() const override { return "FlashAttentionBackward"; }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take attention eager"; }

  variable_list backward(variable_list&& gradients) override {
    const auto [q_in, k_in, v_in, log_sum_exp, out_in] = saved<5>();
    const std::int64_t width = q_in.size(3);
    const at::Tensor q = with_rows(q_in);
    const at::Tensor k = with_rows(k_in);
    const at::Tensor v = with_rows(v_in);
    const at::Tensor out = with_rows(out_in);
    const at::Tensor dout = with_rows(gradients[0]);
    const at::Tensor dq = empty_heads(shape, shape.queries, q.options());
    const at::Tensor dk = empty_heads(shape, shape.keys, q.options());
    const at::Tensor dv = empty_heads(shape, shape.keys, q.options());
    const float* const sums = log_sum_exp.const_data_ptr<float>();
    with_type(q.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      flash_backward<T>(shape, {heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v)},
                        {heads_of<const T>(out), heads_of<const T>(dout), sums, heads_of<T>(dq),
                         heads_of<T>(dk), heads_of<T>(dv)});
    });
    return {dq.narrow(3, 0, width), dk.narrow(3, 0, width), dv.narrow(3, 0, width)};
  }
};

struct Forward {
  at::Tensor out, log_sum_exp;
};

Forward forward_of(const AttentionShape& shape, const at::Tensor& q_in, const at::Tensor& k_in,
                   const at::Tensor& v_in) {
  const ddprun::KernelGuard guard;
  const at::Tensor q = with_rows(q_in);
  const at::Tensor k = with_rows(k_in);
  const at::Tensor v = with_rows(v_in);
  const at::Tensor out = empty_heads(shape, shape.queries, q.options());
  const at::Tensor log_sum_exp =
      at::empty({shape.batch, shape.heads, shape.queries}, q.options().dtype(at::kFloat));
  with_type(q.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    flash_forward<T>(shape, {heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v)},
                     heads_of<T>(out), log_sum_exp.mutable_data_ptr<float>());
  });
  return {out.narrow(3, 0, q_in.size(3)), log_sum_exp};
}

class Flash final : public ddprun::Attention {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.device != ddprun::DeviceKind::cpu) {
      return ddprun::Refusal{.reason = "it runs on the CPU alone", .expected = "world.device cpu"};
    }
    const at::ScalarType dtype = run.compute_dtype;
    if (dtype == at::kFloat || dtype == at::kBFloat16) return {};
    return ddprun::Refusal{
        .reason = std::string("it does not compute in ") + c10::getDtypeNames(dtype).first,
        .expected = "a precision that computes in float32 or bfloat16"};
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    TORCH_CHECK(q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16,
                "attention \"flash\" computes in float32 or bfloat16, not in ", q.scalar_type());
    TORCH_CHECK(options.scale >= 0.0, "attention \"flash\" needs a scale that is not negative");
    TORCH_CHECK(k.size(2) > 0, "attention \"flash\" needs at least one key");
    const AttentionShape shape = shape_of(q, k, options);
    const auto node = ddprun::make_node<FlashAttentionBackward>(q, k, v);
    const auto [out, log_sum_exp] = forward_of(shape, q, k, v);
    if (node) {
      node->shape = shape;
      torch::autograd::set_history(out, node);
      node->save({q, k, v, log_sum_exp}, {out});
    }
    return out;
  }

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
