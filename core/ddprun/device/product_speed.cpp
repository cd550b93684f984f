// One product after another between marks.
#include "ddprun/device/product_speed.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "ddprun/base/clock.h"
#include "ddprun/device/device.h"

namespace ddprun {

double product_flops(Device& device, c10::ScalarType dtype) {
  constexpr std::int64_t kLimitNs = 300'000'000;
  const std::int64_t order = device.torch_device().is_cpu() ? 1024 : 8192;
  const c10::NoGradGuard no_grad;
  const at::Tensor a =
      at::ones({order, order}, at::TensorOptions(device.torch_device()).dtype(dtype));
  at::Tensor product = at::mm(a, a);  // the first one prepares
  device.synchronize();
  std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
  const std::int64_t begin_ns = now_ns();
  while (now_ns() - begin_ns < kLimitNs) {
    const Mark begin = device.mark();
    product = at::mm(a, a);
    const Mark end = device.mark();
    const std::int64_t end_ns = device.time_of(end);  // waits
    best_ns = std::min(best_ns, std::max<std::int64_t>(end_ns - device.time_of(begin), 1));
  }
  const auto n = static_cast<double>(order);
  return 2 * n * n * n / (static_cast<double>(best_ns) * 1e-9);
}

}  // namespace ddprun
