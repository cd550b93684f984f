// The inner loops of the optimizers; CMake compiles this file so that they are never contracted.
#include "ddprun/kernels/rows/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/optimizer.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

HWY_INLINE Vector set(float value) { return hn::Set(kFloats, value); }

/// Calls body(lanes, index), which returns the new parameter, and write_copy(new, index, lanes).
template <class Parameter, class Body, class WriteCopy>
HWY_INLINE void for_parameters(std::int64_t count, Parameter* parameter, const Body& body,
                               const WriteCopy& write_copy) {
  for_vectors(0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Vector updated = body(lanes, i);
    store(updated, parameter + i, lanes);
    write_copy(updated, i, lanes);
  });
}

/// Calls body(lanes, index), which returns the new parameter. Writes that, rounded, to copy.
template <class Parameter, class Body>
HWY_INLINE void for_parameters(std::int64_t count, Parameter* parameter, bf16* copy,
                               const Body& body) {
  if (copy == nullptr) {
    for_parameters(count, parameter, body, [](Vector, std::int64_t, auto) HWY_ATTR {});
  } else if (can_stream(copy)) {
    for_parameters(count, parameter, body,
                   [copy](Vector updated, std::int64_t i, auto lanes)
                       HWY_ATTR { stream(updated, copy + i, lanes); });
    hwy::FlushStream();
  } else {
    for_parameters(count, parameter, body,
                   [copy](Vector updated, std::int64_t i, auto lanes)
                       HWY_ATTR { store(updated, copy + i, lanes); });
  }
}

template <class Gradient, class Parameter, class Moment>
void adamw_loop(const AdamwFactors& f, std::int64_t count, const Gradient* gradient,
                Parameter* parameter, Moment* mean, Moment* square, bf16* copy) {
  const Vector gradient_scale = set(f.gradient_scale);
  const Vector decay = set(f.decay);
  const Vector beta1_complement = set(f.beta1_complement);
  const Vector beta2 = set(f.beta2);
  const Vector beta2_complement = set(f.beta2_complement);
  const Vector bias2_sqrt = set(f.bias2_sqrt);
  const Vector eps = set(f.eps);
  const Vector step_size = set(f.step_size);
  for_parameters(count, parameter, copy, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Vector g = hn::Mul(load_ahead(gradient + i, lanes), gradient_scale);
    const Vector m_before = load_ahead(mean + i, lanes);
    const Vector m = hn::Add(m_before, hn::Mul(beta1_complement, hn::Sub(g, m_before)));
    const Vector v = hn::Add(hn::Mul(beta2, load_ahead(square + i, lanes)),
                             hn::Mul(hn::Mul(beta2_complement, g), g));
    const Vector denominator = hn::Add(hn::Div(hn::Sqrt(v), bias2_sqrt), eps);
    store(m, mean + i, lanes);
    store(v, square + i, lanes);
    return hn::Sub(hn::Mul(load_ahead(parameter + i, lanes), decay),
                   hn::Div(hn::Mul(step_size, m), denominator));
  });
}

template <class Gradient, class Parameter>
void sgd_loop(const SgdFactors& f, std::int64_t count, const Gradient* gradient,
              Parameter* parameter, bf16* copy) {
  const Vector gradient_scale = set(f.gradient_scale);
  const Vector weight_decay = set(f.weight_decay);
  const Vector lr = set(f.lr);
  for_parameters(count, parameter, copy, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Vector p = load_ahead(parameter + i, lanes);
    const Vector g =
        hn::Add(hn::Mul(load_ahead(gradient + i, lanes), gradient_scale), hn::Mul(weight_decay, p));
    return hn::Sub(p, hn::Mul(lr, g));
  });
}

template <class Gradient, class Parameter, class Moment>
void sgd_momentum_loop(const SgdFactors& f, std::int64_t count, const Gradient* gradient,
                       Parameter* parameter, Moment* velocity, bf16* copy) {
  const Vector gradient_scale = set(f.gradient_scale);
  const Vector weight_decay = set(f.weight_decay);
  const Vector momentum = set(f.momentum);
  const Vector lr = set(f.lr);
  for_parameters(count, parameter, copy, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Vector p = load_ahead(parameter + i, lanes);
    const Vector g =
        hn::Add(hn::Mul(load_ahead(gradient + i, lanes), gradient_scale), hn::Mul(weight_decay, p));
    const Vector v = hn::Add(hn::Mul(momentum, load_ahead(velocity + i, lanes)), g);
    store(v, velocity + i, lanes);
    return hn::Sub(p, hn::Mul(lr, v));
  });
}

template <class T>
double square_sum(const T* values, std::int64_t count) {
  // Independent sums, which the compiler turns into vectors. Their number is the same at every SIMD
  // level.
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<float>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) {
    const double value = static_cast<float>(values[i]);
    sum += value * value;
  }
  return sum;
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class Gradient, class Parameter, class Moment>
void adamw_loop(const AdamwFactors& factors, std::int64_t count, const Gradient* gradient,
                Parameter* parameter, Moment* mean, Moment* square, bf16* copy) {
  DDPRUN_DISPATCH(adamw_loop, Gradient, Parameter, Moment)
  (factors, count, gradient, parameter, mean, square, copy);
}
template <class Gradient, class Parameter>
void sgd_loop(const SgdFactors& factors, std::int64_t count, const Gradient* gradient,
              Parameter* parameter, bf16* copy) {
  DDPRUN_DISPATCH(sgd_loop, Gradient, Parameter)(factors, count, gradient, parameter, copy);
}
template <class Gradient, class Parameter, class Moment>
void sgd_momentum_loop(const SgdFactors& factors, std::int64_t count, const Gradient* gradient,
                       Parameter* parameter, Moment* velocity, bf16* copy) {
  DDPRUN_DISPATCH(sgd_momentum_loop, Gradient, Parameter, Moment)
  (factors, count, gradient, parameter, velocity, copy);
}
template <class T>
double square_sum(const T* values, std::int64_t count) {
  return DDPRUN_DISPATCH(square_sum, T)(values, count);
}

// G, P, M: gradient, parameter, moment.
#define DDPRUN_SGD_LOOP(G, P) \
  template void sgd_loop(const SgdFactors&, std::int64_t, const G*, P*, bf16*)
#define DDPRUN_MOMENT_LOOPS(G, P, M)                                                        \
  template void adamw_loop(const AdamwFactors&, std::int64_t, const G*, P*, M*, M*, bf16*); \
  template void sgd_momentum_loop(const SgdFactors&, std::int64_t, const G*, P*, M*, bf16*)
DDPRUN_SGD_LOOP(float, float);
DDPRUN_SGD_LOOP(bf16, float);
DDPRUN_SGD_LOOP(bf16, bf16);
DDPRUN_MOMENT_LOOPS(float, float, float);
DDPRUN_MOMENT_LOOPS(bf16, float, float);
DDPRUN_MOMENT_LOOPS(bf16, bf16, float);
DDPRUN_MOMENT_LOOPS(bf16, bf16, bf16);
template double square_sum(const float*, std::int64_t);
template double square_sum(const bf16*, std::int64_t);

}  // namespace ddprun::kernels
#endif
