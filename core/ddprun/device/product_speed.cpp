// One product after another between marks.
#include "ddprun/device/product_speed.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "ddprun/base/clock.h"
#include "ddprun/device/device.h"
#include "ddprun/kernels/product/product.h"

namespace ddprun {

namespace {

/// out = a a by the core's kernels, a (n, n) and out of T.
template <class T>
void square_by_core(const at::Tensor& a, at::Tensor& out) {
  const std::int64_t n = a.size(0);
  const kernels::Matrix<const T> in = {a.const_data_ptr<T>(), n, n, n};
  kernels::product(in, in, /*add=*/false, kernels::Matrix<T>{out.data_ptr<T>(), n, n, n});
}

void square(const at::Tensor& a, at::Tensor& out) {
  if (a.is_cpu() && a.scalar_type() == at::kFloat) return square_by_core<float>(a, out);
  if (a.is_cpu() && a.scalar_type() == at::kBFloat16) return square_by_core<at::BFloat16>(a, out);
  at::mm_out(out, a, a);
}

double fastest(Device& device, c10::ScalarType dtype, std::int64_t order, std::int64_t limit_ns) {
  const c10::NoGradGuard no_grad;
  const at::Tensor a =
      at::ones({order, order}, at::TensorOptions(device.torch_device()).dtype(dtype));
  at::Tensor product = at::empty_like(a);
  square(a, product);  // the first one prepares
  device.synchronize();
  std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
  const std::int64_t begin_ns = now_ns();
  while (now_ns() - begin_ns < limit_ns) {
    const Mark begin = device.mark();
    square(a, product);
    const Mark end = device.mark();
    const std::int64_t end_ns = device.time_of(end);  // waits
    best_ns = std::min(best_ns, std::max<std::int64_t>(end_ns - device.time_of(begin), 1));
  }
  const auto n = static_cast<double>(order);
  return 2 * n * n * n / (static_cast<double>(best_ns) * 1e-9);
}

}  // namespace

double product_flops(Device& device, c10::ScalarType dtype) {
  std::int64_t order = 8192;
  if (device.torch_device().is_cpu()) order = dtype == at::kHalf ? 256 : 1024;
  return fastest(device, dtype, order, 300'000'000);
}

double short_product_flops() { return fastest(cpu_device(), at::kFloat, 384, 3'000'000); }

}  // namespace ddprun
