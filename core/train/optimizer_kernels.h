// The inner loops of the optimizers: plain float arrays in, one pass, vectorised for the CPU that
// runs them.
#pragma once

#include <cstdint>

namespace ddprun {

/// What is constant over one step, so that the loop has one square root and two divisions an
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

struct SgdFactors {
  float gradient_scale;
  float weight_decay;
  float momentum;
  float lr;
};

/// All loops give the same bits on every CPU and however a range is cut: no contraction to fused
/// multiply-add.
void adamw_loop(const AdamwFactors& factors, std::int64_t count, const float* gradient,
                float* parameter, float* mean, float* square);
void sgd_loop(const SgdFactors& factors, std::int64_t count, const float* gradient,
              float* parameter);
void sgd_momentum_loop(const SgdFactors& factors, std::int64_t count, const float* gradient,
                       float* parameter, float* velocity);

/// Sum of squares in double, by an order of additions that depends on `count` alone.
double square_sum(const float* values, std::int64_t count);

}  // namespace ddprun
