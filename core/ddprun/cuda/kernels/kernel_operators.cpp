// Operators of the fused layers (model/fused_ops.h) and of the optimizer on a GPU, by kernels of
// our own. Products are in cuda_operators.cpp.
#include <ATen/ops/index_put.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "ddprun/cuda/kernels/kernel_operators.h"
#include "ddprun/cuda/kernels/optimizer.h"
#include "ddprun/cuda/kernels/rows.h"
#include "ddprun/kernels/with_dtype.h"

namespace ddprun::cuda {

namespace {

using kernels::with_dtype;
using In = const at::Tensor&;
using MaybeIn = const std::optional<at::Tensor>&;

/// Calls f(stream, zero of the values' type) where a kernel may be launched that reads and writes
/// them.
template <typename F>
void on_device(In values, const F& f) {
  const c10::DeviceGuard guard(values.device());
  with_dtype(values, [&](auto zero) { f(current_stream(values.device()), zero); });
}

template <typename T>
T* data(In tensor) {
  TORCH_CHECK(tensor.is_contiguous(), "fused kernels take rows without gaps");
  return tensor.data_ptr<T>();
}

template <typename T>
T* data_or_null(MaybeIn tensor) {
  return tensor ? data<T>(*tensor) : nullptr;
}

void rms_norm_of_rows(In x, In weight, double eps, In y, In inverse_rms) {
  on_device(y, [&](auto stream, auto zero) {
    rms_norm(stream, Norm<decltype(zero)>{.rows = x.size(0),
                                          .width = x.size(1),
                                          .eps = static_cast<float>(eps),
                                          .x = data<float>(x),
                                          .weight = data<float>(weight),
                                          .y = data<decltype(zero)>(y),
                                          .inverse_rms = data<float>(inverse_rms)});
  });
}

/// forward: x, weight, inverse_rms.
void rms_norm_backward_of_rows(In dy, at::TensorList forward, MaybeIn dsum, In dx, In partial,
                               MaybeIn dweight) {
  on_device(dy, [&](auto stream, auto zero) {
    rms_norm_backward(stream,
                      NormGradient<decltype(zero)>{.rows = dy.size(0),
                                                   .width = dy.size(1),
                                                   .dy = data<decltype(zero)>(dy),
                                                   .x = data<float>(forward[0]),
                                                   .weight = data<float>(forward[1]),
                                                   .inverse_rms = data<float>(forward[2]),
                                                   .dsum = data_or_null<float>(dsum),
                                                   .dx = data<float>(dx),
                                                   .partial = data<float>(partial),
                                                   .parts = partial.size(0),
                                                   .dweight = data_or_null<float>(dweight)});
  });
}

void rope_of_rows(In x, In rotations, std::int64_t time, std::int64_t head_dim, bool inverse) {
  on_device(x, [&](auto stream, auto zero) {
    rope(stream, Turned<decltype(zero)>{.x = x.data_ptr<decltype(zero)>(),
                                        .rows = x.size(0),
                                        .width = x.size(1),
                                        .stride = x.stride(0),
                                        .rotations = data<float>(rotations),
                                        .time = time,
                                        .head_dim = head_dim,
                                        .inverse = inverse});
  });
}

void swiglu_of_rows(In up_gate, In h) {
  on_device(h, [&](auto stream, auto zero) {
    using T = decltype(zero);
    swiglu(stream, h.size(0), h.size(1), data<T>(up_gate), data<T>(h));
  });
}

void swiglu_backward_of_rows(In dh, In up_gate, In h) {
  on_device(h, [&](auto stream, auto zero) {
    using T = decltype(zero);
    swiglu_backward(stream, h.size(0), h.size(1), data<T>(dh), data<T>(up_gate), data<T>(h));
  });
}

void add_of_rows(In values, In branch, In sum) {
  on_device(branch, [&](auto stream, auto zero) {
    add(stream, sum.numel(), data<float>(values), data<decltype(zero)>(branch), data<float>(sum));
  });
}

void cross_entropy_of_rows(In logits, In targets, double scale, bool with_gradient, In losses) {
  on_device(logits, [&](auto stream, auto zero) {
    cross_entropy(stream, RowLosses<decltype(zero)>{.rows = logits.size(0),
                                                    .vocab = logits.size(1),
                                                    .logits = data<decltype(zero)>(logits),
                                                    .targets = data<std::int64_t>(targets),
                                                    .scale = static_cast<float>(scale),
                                                    .with_gradient = with_gradient,
                                                    .losses = data<double>(losses)});
  });
}

/// PyTorch's own, which sorts: an id that occurs twice is added to in one order.
void embedding_backward_of_rows(In dx, In ids, In gradient) {
  at::Tensor sum = gradient;
  at::index_put_(sum, {ids}, dx, /*accumulate=*/true);
}

/// step: the learning rate, the steps, the gradients' factor, overflow; the last two may be
/// undefined. settings: beta1, beta2, weight_decay, eps.
void adamw_of_arrays(In gradient, In parameter, at::TensorList moments, MaybeIn copy,
                     at::TensorList step, at::ArrayRef<double> settings) {
  const auto value = [&](std::size_t index) -> const float* {
    return step[index].defined() ? data<float>(step[index]) : nullptr;
  };
  const AdamwState state = {.lr = value(0),
                            .steps = value(1),
                            .factor = value(2),
                            .overflow = value(3),
                            .settings = {.beta1 = settings[0],
                                         .beta2 = settings[1],
                                         .weight_decay = settings[2],
                                         .eps = settings[3]}};
  on_device(gradient, [&](auto stream, auto gradient_zero) {
    with_dtype(parameter, [&](auto parameter_zero) {
      with_dtype(moments[0], [&](auto moment_zero) {
        using Moment = decltype(moment_zero);
        adamw(stream, state,
              AdamwArrays<decltype(gradient_zero), decltype(parameter_zero), Moment>{
                  .count = parameter.numel(),
                  .gradient = data<decltype(gradient_zero)>(gradient),
                  .parameter = data<decltype(parameter_zero)>(parameter),
                  .mean = data<Moment>(moments[0]),
                  .square = data<Moment>(moments[1]),
                  .copy = data_or_null<bf16>(copy)});
      });
    });
  });
}

}  // namespace

void define_kernel_operators(torch::Library& library) {
  library.impl("rms_norm", &rms_norm_of_rows);
  library.impl("rms_norm_backward", &rms_norm_backward_of_rows);
  library.impl("rope", &rope_of_rows);
  library.impl("swiglu", &swiglu_of_rows);
  library.impl("swiglu_backward", &swiglu_backward_of_rows);
  library.impl("add", &add_of_rows);
  library.impl("cross_entropy", &cross_entropy_of_rows);
  library.impl("embedding_backward", &embedding_backward_of_rows);
  library.impl("adamw", &adamw_of_arrays);
}

}  // namespace ddprun::cuda
