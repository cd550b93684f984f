// RoPE: one complex product a pair, on vectors of interleaved pairs.
#include "ddprun/kernels/rows/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/rope.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

// Turns all heads of a row: (a, b) becomes (a cos - b sin, b cos + a sin).
#if HWY_TARGET == HWY_SCALAR
// Vectors of one lane hold no pair.
template <class T>
HWY_INLINE void turn_row(std::int64_t width, std::int64_t head_dim, const float* turn, bool inverse,
                         T* x) {
  for (std::int64_t i = 0; i < width; i += 2) {
    const float cosine = turn[i % head_dim];
    const float sine = inverse ? -turn[i % head_dim + 1] : turn[i % head_dim + 1];
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * cosine - b * sine;
    x[i + 1] = b * cosine + a * sine;
  }
}
#else
template <class T>
HWY_INLINE void turn_row(std::int64_t width, std::int64_t head_dim, const float* turn, bool inverse,
                         T* x) {
  const Vector zero = hn::Zero(kFloats);
  const Vector minus_zero = hn::Set(kFloats, -0.0f);
  const Vector sign = inverse ? hn::OddEven(minus_zero, zero) : hn::OddEven(zero, minus_zero);
  for_vectors(0, head_dim, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Vector rotation = load(turn + i, lanes);
    const Vector cosine = hn::DupEven(rotation);
    const Vector sine = hn::Xor(hn::DupOdd(rotation), sign);
    for (T* head = x + i; head < x + width; head += head_dim) {
      const Vector pairs = load(head, lanes);
      const Vector swapped = hn::Reverse2(kFloats, pairs);
      store(hn::MulAdd(pairs, cosine, hn::Mul(swapped, sine)), head, lanes);
    }
  });
}
#endif

template <class T>
void rope(const Rotations& rotations, std::int64_t first_row, bool inverse, const Matrix<T>& x) {
  const auto [data, time, head_dim] = rotations;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const float* const turn = data + (first_row + row) % time * head_dim;
    turn_row(x.columns, head_dim, turn, inverse, x.data + row * x.stride);
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class T>
void rope(const Rotations& rotations, std::int64_t first_row, bool inverse, const Matrix<T>& x) {
  DDPRUN_DISPATCH(rope, T)(rotations, first_row, inverse, x);
}
template void rope(const Rotations&, std::int64_t, bool, const Matrix<float>&);
template void rope(const Rotations&, std::int64_t, bool, const Matrix<bf16>&);

}  // namespace ddprun::kernels
#endif
