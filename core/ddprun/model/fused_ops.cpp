// The kernels applied to tensors: they choose the dtype and spread rows over torch's threads.
#include "ddprun/model/fused_ops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ddprun/kernels/product/product.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/cross_entropy.h"
#include "ddprun/kernels/rows/embedding.h"
#include "ddprun/kernels/rows/rms_norm.h"
#include "ddprun/kernels/rows/rope.h"
#include "ddprun/kernels/rows/swiglu.h"

namespace ddprun::fused {

namespace {

constexpr std::int64_t kGrain = 16384;  // elements worth a thread's start

/// Calls f with a value of the C++ type of the tensor's values. Those of device meta have none:
/// what a step allocates is known without them (experiments/training/dry_step.h).
template <typename F>
void with_dtype(const at::Tensor& values, const F& f) {
  if (values.is_meta()) return;
  const at::ScalarType dtype = values.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "fused kernels compute in float32 or ",
              "bfloat16, not in ", dtype);
  if (dtype == at::kFloat) {
    f(float{});
  } else {
    f(at::BFloat16{});
  }
}

/// Calls f(begin, end) for parts of the rows of a matrix of that width.
template <typename F>
void for_rows(std::int64_t rows, std::int64_t width, const F& f) {
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width)),
                   f);
}

/// The number of parts into which for_parts() cuts that many rows.
std::int64_t parts_of(std::int64_t rows) {
  return std::clamp<std::int64_t>(at::get_num_threads(), 1, rows);
}

/// Calls f(part, begin, end) for rows cut into parts_of(rows) parts, for sums that are kept apart.
template <typename F>
void for_parts(std::int64_t rows, const F& f) {
  const std::int64_t parts = parts_of(rows);
  at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      f(part, rows * part / parts, rows * (part + 1) / parts);
    }
  });
}

template <typename T>
T* row(const at::Tensor& tensor, std::int64_t index) {
  return tensor.defined() ? tensor.data_ptr<T>() + index * tensor.stride(0) : nullptr;
}

template <typename T>
kernels::Matrix<const T> operand(const at::Tensor& matrix) {
  return {matrix.const_data_ptr<T>(), matrix.size(0), matrix.size(1), matrix.stride(0)};
}

template <typename T>
kernels::Matrix<T> result(const at::Tensor& matrix) {
  return {matrix.data_ptr<T>(), matrix.size(0), matrix.size(1), matrix.stride(0)};
}

}  // namespace

Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, float eps, const at::Tensor& y) {
  const std::int64_t width = x.size(1);
  const Normed out = {.x = x, .y = y, .inverse_rms = at::empty({x.size(0)}, x.options())};
  RECORD_FUNCTION("ddprun::rms_norm",
                  std::vector<c10::IValue>({x, weight, out.y, out.inverse_rms}));
  with_dtype(out.y, [&](auto zero) {
    using T = decltype(zero);
    for_rows(x.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      kernels::rms_norm(end - begin, width, eps, row<float>(x, begin),
                        weight.const_data_ptr<float>(), row<T>(out.y, begin),
                        row<float>(out.inverse_rms, begin));
    });
  });
  return out;
}

at::Tensor rms_norm_backward(const at::Tensor& dy, const Normed& normed, const at::Tensor& dsum,
                             const ParameterSlot& weight) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t width = dy.size(1);
  at::Tensor dx = at::empty_like(normed.x);
  // Each thread sums the weight's gradient over its own rows; the sums are added in order.
  const std::int64_t parts = parts_of(rows);
  at::Tensor partial = at::zeros({parts, width}, dx.options());
  RECORD_FUNCTION(
      "ddprun::rms_norm_backward",
      std::vector<c10::IValue>({dy, normed.x, normed.inverse_rms, dsum, dx, weight.parameter}));
  with_dtype(dy, [&](auto zero) {
    using T = decltype(zero);
    for_parts(rows, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      const kernels::NormedRows forward = {.rows = end - begin,
                                           .width = width,
                                           .x = row<float>(normed.x, begin),
                                           .weight = weight.parameter.const_data_ptr<float>(),
                                           .inverse_rms = row<float>(normed.inverse_rms, begin)};
      kernels::rms_norm_backward(forward, row<T>(dy, begin), row<float>(dsum, begin),
                                 row<float>(dx, begin), row<float>(partial, part));
    });
  });
  if (!weight.trained()) return dx;
  float* const gradient = gradient_to_add_to(weight);
  if (dx.is_meta()) return dx;
  for (std::int64_t part = 0; part < parts; ++part) {
    kernels::add(width, gradient, row<float>(partial, part), gradient);
  }
  return dx;
}

void rope(const at::Tensor& x, std::int64_t head_dim, std::int64_t time,
          const at::Tensor& rotations, bool inverse) {
  RECORD_FUNCTION("ddprun::rope", std::vector<c10::IValue>({x, rotations}));
  const kernels::Rotations angles = {rotations.const_data_ptr<float>(), time, head_dim};
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    for_rows(x.size(0), x.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::rope(angles, begin, inverse,
                    kernels::Matrix<T>{row<T>(x, begin), end - begin, x.size(1), x.stride(0)});
    });
  });
}

at::Tensor swiglu(const at::Tensor& up_gate) {
  const std::int64_t width = up_gate.size(1) / 2;
  at::Tensor h = at::empty({up_gate.size(0), width}, up_gate.options());
  RECORD_FUNCTION("ddprun::swiglu", std::vector<c10::IValue>({up_gate, h}));
  with_dtype(up_gate, [&](auto zero) {
    using T = decltype(zero);
    for_rows(up_gate.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      kernels::swiglu(end - begin, width, row<T>(up_gate, begin), row<T>(h, begin));
    });
  });
  return h;
}

at::Tensor swiglu_backward(const at::Tensor& dh, at::Tensor& up_gate) {
  at::Tensor h = at::empty_like(dh);
  RECORD_FUNCTION("ddprun::swiglu_backward", std::vector<c10::IValue>({dh, up_gate, h}));
  with_dtype(dh, [&](auto zero) {
    using T = decltype(zero);
    for_rows(dh.size(0), dh.size(1), [&](std::int64_t begin, std::int64_t end) {
      T* const up = row<T>(up_gate, begin);
      kernels::swiglu_backward(end - begin, dh.size(1), row<T>(dh, begin), up, up,
                               row<T>(h, begin));
    });
  });
  return h;
}

void add_branch(const at::Tensor& stream, const at::Tensor& branch, at::Tensor& sum) {
  RECORD_FUNCTION("ddprun::add", std::vector<c10::IValue>({stream, branch, sum}));
  with_dtype(branch, [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(0, sum.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels::add(end - begin, stream.const_data_ptr<float>() + begin,
                   branch.const_data_ptr<T>() + begin, sum.data_ptr<float>() + begin);
    });
  });
}

void embedding_backward(const at::Tensor& dx, const at::Tensor& ids, const ParameterSlot& table) {
  float* const gradient = gradient_to_add_to(table);
  RECORD_FUNCTION("ddprun::embedding_backward", std::vector<c10::IValue>({dx, ids}));
  if (dx.is_meta()) return;
  // Threads share the columns, because rows of one id would collide.
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / dx.size(0));
  at::parallel_for(0, dx.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    kernels::embedding_backward(dx.size(0), dx.size(1), begin, end, dx.const_data_ptr<float>(),
                                ids.const_data_ptr<std::int64_t>(), gradient);
  });
}

double cross_entropy(at::Tensor& logits, const at::Tensor& targets, float scale,
                     bool with_gradient) {
  const std::int64_t rows = logits.size(0);
  std::vector<double> sums(parts_of(rows));
  RECORD_FUNCTION("ddprun::cross_entropy", std::vector<c10::IValue>({logits, targets}));
  with_dtype(logits, [&](auto zero) {
    using T = decltype(zero);
    for_parts(rows, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      T* const values = row<T>(logits, begin);
      sums[part] = kernels::cross_entropy(end - begin, logits.size(1), values,
                                          targets.const_data_ptr<std::int64_t>() + begin, scale,
                                          with_gradient ? values : nullptr);
    });
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  linear_product_out(x, weight, out);
  return out;
}

void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({x, weight, out}));
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(x), operand<T>(weight).transposed(), false, result<T>(out));
  });
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  at::Tensor out = at::empty({dy.size(0), weight.size(1)}, dy.options());
  input_gradient_out(dy, weight, out);
  return out;
}

void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, weight, out}));
  with_dtype(dy, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy), operand<T>(weight), false, result<T>(out));
  });
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, x, out}));
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy).transposed(), operand<T>(x), add, result<float>(out));
  });
}

void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x) {
  const auto rounded = [&](at::Tensor& out) {
    RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, x, out}));
    if (x.is_meta()) return;
    kernels::product(operand<at::BFloat16>(dy).transposed(), operand<at::BFloat16>(x), false,
                     result<at::BFloat16>(out));
  };
  if (write_reduced_gradients(slots, rounded)) return;
  add_gradients(slots, x.size(1),
                [&](bool add, at::Tensor& out) { weight_gradient(dy, x, add, out); });
}

}  // namespace ddprun::fused
