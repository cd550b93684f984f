// The fused layers' operators on the CPU: the kernels, with rows spread over torch's threads. On
// device meta nothing is computed: what a step allocates is known without it.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "ddprun/kernels/product/product.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/cross_entropy.h"
#include "ddprun/kernels/rows/embedding.h"
#include "ddprun/kernels/rows/rms_norm.h"
#include "ddprun/kernels/rows/rope.h"
#include "ddprun/kernels/rows/swiglu.h"
#include "ddprun/kernels/with_dtype.h"

namespace ddprun::fused::cpu {

namespace {

using kernels::with_dtype;
using OptionalTensor = std::optional<at::Tensor>;

constexpr std::int64_t kGrain = 16384;  // elements worth a thread's start

/// Calls f(begin, end) for parts of the rows of a matrix of that width.
template <typename F>
void for_rows(std::int64_t rows, std::int64_t width, const F& f) {
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width)),
                   f);
}

/// Calls f(part, begin, end) for rows cut into so many parts, for sums that are kept apart.
template <typename F>
void for_parts(std::int64_t rows, std::int64_t parts, const F& f) {
  at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      f(part, rows * part / parts, rows * (part + 1) / parts);
    }
  });
}

template <typename T>
T* row(const at::Tensor& tensor, std::int64_t index) {
  return tensor.data_ptr<T>() + index * tensor.stride(0);
}

void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& inverse_rms) {
  with_dtype(y, [&](auto zero) {
    using T = decltype(zero);
    for_rows(x.size(0), x.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::rms_norm(end - begin, x.size(1), static_cast<float>(eps), row<float>(x, begin),
                        weight.const_data_ptr<float>(), row<T>(y, begin),
                        row<float>(inverse_rms, begin));
    });
  });
}

/// Each thread sums the weight's gradient over its own rows; the sums are added in order.
/// forward: x, weight, inverse_rms.
void rms_norm_backward(const at::Tensor& dy, at::TensorList forward, const OptionalTensor& dsum,
                       const at::Tensor& dx, const at::Tensor& partial,
                       const OptionalTensor& dweight) {
  partial.zero_();
  with_dtype(dy, [&](auto zero) {
    using T = decltype(zero);
    const auto part_of = [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      const kernels::NormedRows normed = {.rows = end - begin,
                                          .width = dy.size(1),
                                          .x = row<float>(forward[0], begin),
                                          .weight = forward[1].const_data_ptr<float>(),
                                          .inverse_rms = row<float>(forward[2], begin)};
      kernels::rms_norm_backward(normed, row<T>(dy, begin),
                                 dsum ? row<float>(*dsum, begin) : nullptr, row<float>(dx, begin),
                                 row<float>(partial, part));
    };
    for_parts(dy.size(0), partial.size(0), part_of);
  });
  if (!dweight) return;
  auto* const gradient = dweight->data_ptr<float>();
  for (std::int64_t part = 0; part < partial.size(0); ++part) {
    kernels::add(dy.size(1), gradient, row<float>(partial, part), gradient);
  }
}

void rope(const at::Tensor& x, const at::Tensor& rotations, std::int64_t time,
          std::int64_t head_dim, bool inverse) {
  const kernels::Rotations angles = {rotations.const_data_ptr<float>(), time, head_dim};
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    for_rows(x.size(0), x.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::rope(angles, begin, inverse,
                    kernels::Matrix<T>{row<T>(x, begin), end - begin, x.size(1), x.stride(0)});
    });
  });
}

void swiglu(const at::Tensor& up_gate, const at::Tensor& h) {
  with_dtype(up_gate, [&](auto zero) {
    using T = decltype(zero);
    for_rows(h.size(0), h.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::swiglu(end - begin, h.size(1), row<T>(up_gate, begin), row<T>(h, begin));
    });
  });
}

void swiglu_backward(const at::Tensor& dh, const at::Tensor& up_gate, const at::Tensor& h) {
  with_dtype(dh, [&](auto zero) {
    using T = decltype(zero);
    for_rows(dh.size(0), dh.size(1), [&](std::int64_t begin, std::int64_t end) {
      T* const up = row<T>(up_gate, begin);
      kernels::swiglu_backward(end - begin, dh.size(1), row<T>(dh, begin), up, up,
                               row<T>(h, begin));
    });
  });
}

void add(const at::Tensor& stream, const at::Tensor& branch, const at::Tensor& sum) {
  with_dtype(branch, [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(0, sum.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels::add(end - begin, stream.const_data_ptr<float>() + begin,
                   branch.const_data_ptr<T>() + begin, sum.data_ptr<float>() + begin);
    });
  });
}

/// Threads share the columns, because rows of one id would collide.
void embedding_backward(const at::Tensor& dx, const at::Tensor& ids, const at::Tensor& gradient) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / dx.size(0));
  at::parallel_for(0, dx.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    kernels::embedding_backward(dx.size(0), dx.size(1), begin, end, dx.const_data_ptr<float>(),
                                ids.const_data_ptr<std::int64_t>(), gradient.data_ptr<float>());
  });
}

void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double scale,
                   bool with_gradient, const at::Tensor& losses) {
  const std::int64_t rows = logits.size(0);
  const std::int64_t parts = std::clamp<std::int64_t>(at::get_num_threads(), 1, rows);
  auto* const sums = losses.data_ptr<double>();
  with_dtype(logits, [&](auto zero) {
    using T = decltype(zero);
    for_parts(rows, parts, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      T* const values = row<T>(logits, begin);
      sums[part] += kernels::cross_entropy(
          end - begin, logits.size(1), values, targets.const_data_ptr<std::int64_t>() + begin,
          static_cast<float>(scale), with_gradient ? values : nullptr);
    });
  });
}

template <typename T>
kernels::Matrix<const T> operand(const at::Tensor& matrix, bool transposed) {
  const kernels::Matrix<const T> plain = {matrix.const_data_ptr<T>(), matrix.size(0),
                                          matrix.size(1), matrix.stride(0)};
  return transposed ? plain.transposed() : plain;
}

void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, bool transpose_a,
             bool transpose_b, bool add) {
  const auto multiply = [&](auto operands, auto results) {
    using T = decltype(operands);
    using R = decltype(results);
    kernels::product(
        operand<T>(a, transpose_a), operand<T>(b, transpose_b), add,
        kernels::Matrix<R>{out.data_ptr<R>(), out.size(0), out.size(1), out.stride(0)});
  };
  if (a.scalar_type() == at::kFloat) {
    multiply(float{}, float{});
  } else if (out.scalar_type() == at::kFloat) {
    multiply(at::BFloat16{}, float{});
  } else {
    multiply(at::BFloat16{}, at::BFloat16{});
  }
}

void nothing(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

TORCH_LIBRARY_IMPL(ddprun, CPU, library) {
  library.impl("rms_norm", &rms_norm);
  library.impl("rms_norm_backward", &rms_norm_backward);
  library.impl("rope", &rope);
  library.impl("swiglu", &swiglu);
  library.impl("swiglu_backward", &swiglu_backward);
  library.impl("add", &add);
  library.impl("embedding_backward", &embedding_backward);
  library.impl("cross_entropy", &cross_entropy);
  library.impl("product", &product);
}

TORCH_LIBRARY_IMPL(ddprun, Meta, library) {
  for (const char* const name :
       {"rms_norm", "rms_norm_backward", "rope", "swiglu", "swiglu_backward", "add",
        "embedding_backward", "cross_entropy", "product"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&nothing>());
  }
}

}  // namespace

}  // namespace ddprun::fused::cpu
