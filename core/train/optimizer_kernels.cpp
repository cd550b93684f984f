// The inner loops of the optimizers; CMake compiles this file so that they vectorise and are never
// contracted.
#include "ddprun/train/optimizer_kernels.h"

#include <cmath>

#include "ddprun/kernels/simd_clones.h"

namespace ddprun {

DDPRUN_SIMD void adamw_loop(const AdamwFactors& factors, std::int64_t count,
                            const float* __restrict gradient, float* __restrict parameter,
                            float* __restrict mean, float* __restrict square) {
  const AdamwFactors f = factors;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float m = mean[i] + f.beta1_complement * (g - mean[i]);
    const float v = f.beta2 * square[i] + f.beta2_complement * g * g;
    const float denominator = std::sqrt(v) / f.bias2_sqrt + f.eps;
    parameter[i] = parameter[i] * f.decay - f.step_size * m / denominator;
    mean[i] = m;
    square[i] = v;
  }
}

DDPRUN_SIMD void sgd_loop(const SgdFactors& factors, std::int64_t count,
                          const float* __restrict gradient, float* __restrict parameter) {
  const SgdFactors f = factors;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * f.gradient_scale + f.weight_decay * parameter[i];
    parameter[i] -= f.lr * g;
  }
}

DDPRUN_SIMD void sgd_momentum_loop(const SgdFactors& factors, std::int64_t count,
                                   const float* __restrict gradient, float* __restrict parameter,
                                   float* __restrict velocity) {
  const SgdFactors f = factors;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * f.gradient_scale + f.weight_decay * parameter[i];
    const float v = f.momentum * velocity[i] + g;
    parameter[i] -= f.lr * v;
    velocity[i] = v;
  }
}

DDPRUN_SIMD double square_sum(const float* values, std::int64_t count) {
  // Independent sums, so that additions vectorise without reordering any of them.
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

}  // namespace ddprun
