// Lays tensors out as the kernels take them.
#include "ddprun/kernels/attention/flash_of_tensors.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include "ddprun/kernels/attention/flash_attention.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/side_by_side.h"

namespace ddprun::kernels {

namespace {

/// Calls f with values of the tensor's C++ type and of the type that is multiplied. On device meta
/// there is nothing to compute.
template <typename F>
void with_types(const at::Tensor& tensor, const F& f) {
  if (tensor.is_meta()) return;
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kFloat) {
    f(float{}, float{});
  } else if (product_path() == ProductPath::float32) {
    f(bf16{}, float{});
  } else {
    f(bf16{}, bf16{});
  }
}

/// (batch, heads, time, width) laid out as (batch, time, heads, width), as projections want it.
at::Tensor empty_heads(const AttentionShape& shape, std::int64_t time,
                       const at::TensorOptions& options) {
  return at::empty({shape.batch, time, shape.heads, shape.width}, options).transpose(1, 2);
}

/// Memory for the gradients of q, k and v.
std::array<at::Tensor, 3> empty_gradients(const AttentionShape& shape, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v) {
  const at::TensorOptions options = q.options();
  if (!side_by_side(q, k, v)) {
    return {empty_heads(shape, shape.queries, options), empty_heads(shape, shape.keys, options),
            empty_heads(shape, shape.keys, options)};
  }
  const at::Tensor vkq = at::empty({shape.batch, shape.keys, 3, shape.heads, shape.width}, options);
  const auto part = [&](int index) { return vkq.select(2, index).transpose(1, 2); };
  return {part(2), part(1), part(0)};
}

/// The tensor as the kernels take it: rows contiguous, padded with zeros to a width that they have,
/// and, so that pairs of bfloat16 lie alike in all of them, an even number of values apart.
at::Tensor with_rows(const at::Tensor& tensor) {
  const std::int64_t missing = round_up(tensor.size(3), kAttentionWidthUnit) - tensor.size(3);
  if (missing > 0) return at::constant_pad_nd(tensor, {0, missing}).contiguous();
  return tensor.stride(3) == 1 && tensor.stride(2) % 2 == 0 ? tensor : tensor.contiguous();
}

template <typename T>
HeadsOf<T> heads_of(const at::Tensor& tensor) {
  return {static_cast<std::remove_const_t<T>*>(tensor.data_ptr()), tensor.stride(0),
          tensor.stride(1), tensor.stride(2)};
}

AttentionShape shape_of(const at::Tensor& q, const at::Tensor& k, const FlashMask& mask,
                        double scale) {
  const double factor = scale != 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  return {q.size(0),
          q.size(1),
          q.size(2),
          k.size(2),
          round_up(q.size(3), kAttentionWidthUnit),
          mask.causal,
          static_cast<float>(factor),
          mask.first_keys.defined() && !q.is_meta() ? mask.first_keys.const_data_ptr<std::int32_t>()
                                                    : nullptr};
}

}  // namespace

FlashOutput flash_forward(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                          const FlashMask& mask, double scale) {
  const AttentionShape shape = shape_of(q_in, k_in, mask, scale);
  const at::Tensor q = with_rows(q_in);
  const at::Tensor k = with_rows(k_in);
  const at::Tensor v = with_rows(v_in);
  const at::Tensor out = empty_heads(shape, shape.queries, q.options());
  const at::Tensor log_sum_exp =
      at::empty({shape.batch, shape.heads, shape.queries}, q.options().dtype(at::kFloat));
  RECORD_FUNCTION("ddprun::flash_attention",
                  std::vector<c10::IValue>({q_in, k_in, v_in, out, log_sum_exp, mask.causal}));
  with_types(q, [&](auto stored, auto multiplied) {
    using S = decltype(stored);
    flash_forward<S, decltype(multiplied)>(
        shape, {heads_of<const S>(q), heads_of<const S>(k), heads_of<const S>(v)}, heads_of<S>(out),
        log_sum_exp.mutable_data_ptr<float>());
  });
  return {out.narrow(3, 0, q_in.size(3)), log_sum_exp};
}

FlashGradients flash_backward(const at::Tensor& dout_in, const at::Tensor& q_in,
                              const at::Tensor& k_in, const at::Tensor& v_in,
                              const FlashOutput& forward, const FlashMask& mask, double scale) {
  const AttentionShape shape = shape_of(q_in, k_in, mask, scale);
  const std::int64_t width = q_in.size(3);
  const at::Tensor q = with_rows(q_in);
  const at::Tensor k = with_rows(k_in);
  const at::Tensor v = with_rows(v_in);
  const at::Tensor out = with_rows(forward.out);
  const at::Tensor dout = with_rows(dout_in);
  const auto [dq, dk, dv] = empty_gradients(shape, q, k, v);
  RECORD_FUNCTION("ddprun::flash_attention_backward",
                  std::vector<c10::IValue>({dout_in, q_in, k_in, v_in, out, forward.log_sum_exp, dq,
                                            dk, dv, mask.causal}));
  const float* const sums = forward.log_sum_exp.const_data_ptr<float>();
  with_types(q, [&](auto stored, auto multiplied) {
    using S = decltype(stored);
    flash_backward<S, decltype(multiplied)>(
        shape, {heads_of<const S>(q), heads_of<const S>(k), heads_of<const S>(v)},
        {heads_of<const S>(out), heads_of<const S>(dout), sums, heads_of<S>(dq), heads_of<S>(dk),
         heads_of<S>(dv)});
  });
  return {dq.narrow(3, 0, width), dk.narrow(3, 0, width), dv.narrow(3, 0, width)};
}

}  // namespace ddprun::kernels
