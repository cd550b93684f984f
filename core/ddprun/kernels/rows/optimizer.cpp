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
HWY_INLINE void adamw_update(const AdamwFactors& f, std::int64_t count, const Gradient* gradient,
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
HWY_INLINE void sgd_update(const SgdFactors& f, std::int64_t count, const Gradient* gradient,
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
HWY_INLINE void sgd_momentum_update(const SgdFactors& f, std::int64_t count,
                                    const Gradient* gradient, Parameter* parameter,
                                    Moment* velocity, bf16* copy) {
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

template <typename G>
HWY_INLINE double square_sum(const G* values, std::int64_t count) {
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

// suffix: of the names; G, P, M: gradient, parameter, moment.
#define DDPRUN_MOMENT_UPDATES(suffix, G, P, M)                                                    \
  void adamw_##suffix(const AdamwFactors& f, std::int64_t count, const G* gradient, P* parameter, \
                      M* mean, M* square, bf16* copy) {                                           \
    adamw_update(f, count, gradient, parameter, mean, square, copy);                              \
  }                                                                                               \
  void sgd_momentum_##suffix(const SgdFactors& f, std::int64_t count, const G* gradient,          \
                             P* parameter, M* velocity, bf16* copy) {                             \
    sgd_momentum_update(f, count, gradient, parameter, velocity, copy);                           \
  }
#define DDPRUN_SGD_UPDATE(suffix, G, P)                                                       \
  void sgd_##suffix(const SgdFactors& f, std::int64_t count, const G* gradient, P* parameter, \
                    bf16* copy) {                                                             \
    sgd_update(f, count, gradient, parameter, copy);                                          \
  }
#define DDPRUN_SQUARE_SUM(suffix, G)                                \
  double square_sum_##suffix(const G* values, std::int64_t count) { \
    return square_sum(values, count);                               \
  }
#define DDPRUN_FOR_ALL_TYPES                        \
  DDPRUN_MOMENT_UPDATES(float, float, float, float) \
  DDPRUN_MOMENT_UPDATES(mixed, bf16, float, float)  \
  DDPRUN_MOMENT_UPDATES(half, bf16, bf16, float)    \
  DDPRUN_MOMENT_UPDATES(pure, bf16, bf16, bf16)     \
  DDPRUN_SGD_UPDATE(float, float, float)            \
  DDPRUN_SGD_UPDATE(mixed, bf16, float)             \
  DDPRUN_SGD_UPDATE(pure, bf16, bf16)               \
  DDPRUN_SQUARE_SUM(float, float)                   \
  DDPRUN_SQUARE_SUM(bf16, bf16)
DDPRUN_FOR_ALL_TYPES
#undef DDPRUN_MOMENT_UPDATES
#undef DDPRUN_SGD_UPDATE
#undef DDPRUN_SQUARE_SUM

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

// DDPRUN_FOR_ALL_TYPES once more, with what callers outside see.
#define DDPRUN_MOMENT_UPDATES(suffix, G, P, M)                                                     \
  HWY_EXPORT(adamw_##suffix);                                                                      \
  HWY_EXPORT(sgd_momentum_##suffix);                                                               \
  template <>                                                                                      \
  void adamw_loop(const AdamwFactors& f, std::int64_t count, const G* gradient, P* parameter,      \
                  M* mean, M* square, bf16* copy) {                                                \
    HWY_DYNAMIC_DISPATCH(adamw_##suffix)(f, count, gradient, parameter, mean, square, copy);       \
  }                                                                                                \
  template <>                                                                                      \
  void sgd_momentum_loop(const SgdFactors& f, std::int64_t count, const G* gradient, P* parameter, \
                         M* velocity, bf16* copy) {                                                \
    HWY_DYNAMIC_DISPATCH(sgd_momentum_##suffix)(f, count, gradient, parameter, velocity, copy);    \
  }
#define DDPRUN_SGD_UPDATE(suffix, G, P)                                                   \
  HWY_EXPORT(sgd_##suffix);                                                               \
  template <>                                                                             \
  void sgd_loop(const SgdFactors& f, std::int64_t count, const G* gradient, P* parameter, \
                bf16* copy) {                                                             \
    HWY_DYNAMIC_DISPATCH(sgd_##suffix)(f, count, gradient, parameter, copy);              \
  }
#define DDPRUN_SQUARE_SUM(suffix, G)                                 \
  HWY_EXPORT(square_sum_##suffix);                                   \
  double square_sum(const G* values, std::int64_t count) {           \
    return HWY_DYNAMIC_DISPATCH(square_sum_##suffix)(values, count); \
  }
DDPRUN_FOR_ALL_TYPES

}  // namespace ddprun::kernels
#endif
