// The inner loops of the optimizers: plain float arrays in, one pass.
#pragma once

#include <c10/macros/Macros.h>

#include <cmath>
#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

struct AdamwSettings {
  double beta1, beta2, weight_decay, eps;
};

/// What is constant over one step. With it the loop has one square root and two divisions an
/// element.
struct AdamwFactors {
  float gradient_scale;
  float decay;             ///< 1 - lr * weight_decay
  float beta1_complement;  ///< 1 - beta1
  float beta2;
  float beta2_complement;  ///< 1 - beta2
  float bias2_sqrt;        ///< sqrt(1 - beta2^step)
  float eps;
  float step_size;  ///< lr / (1 - beta1^step)
};

/// Of a step, the first of which is 1.
C10_HOST_DEVICE inline AdamwFactors adamw_factors(const AdamwSettings& s, double lr, double step,
                                                  float gradient_scale) {
  return {.gradient_scale = gradient_scale,
          .decay = static_cast<float>(1.0 - lr * s.weight_decay),
          .beta1_complement = static_cast<float>(1.0 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .beta2_complement = static_cast<float>(1.0 - s.beta2),
          .bias2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(s.beta2, step))),
          .eps = static_cast<float>(s.eps),
          .step_size = static_cast<float>(lr / (1.0 - std::pow(s.beta1, step)))};
}

struct SgdFactors {
  float gradient_scale;
  float weight_decay;
  float momentum;
  float lr;
};

/// All loops give the same bits on every CPU and however a range is cut, because nothing is
/// contracted to fused multiply-add. What is stored in bf16 is rounded once. Unless copy is null,
/// it receives the new parameter rounded to bf16. Gradient, Parameter, Moment: (float, float,
/// float), (bf16, float, float), (bf16, bf16, float) or (bf16, bf16, bf16).
template <class Gradient, class Parameter, class Moment>
void adamw_loop(const AdamwFactors& factors, std::int64_t count, const Gradient* gradient,
                Parameter* parameter, Moment* mean, Moment* square, bf16* copy);
template <class Gradient, class Parameter>
void sgd_loop(const SgdFactors& factors, std::int64_t count, const Gradient* gradient,
              Parameter* parameter, bf16* copy);
template <class Gradient, class Parameter, class Moment>
void sgd_momentum_loop(const SgdFactors& factors, std::int64_t count, const Gradient* gradient,
                       Parameter* parameter, Moment* velocity, bf16* copy);

/// Sum of squares of float or bf16, in double. The order of additions depends on `count` alone.
template <class T>
double square_sum(const T* values, std::int64_t count);

}  // namespace ddprun::kernels
