// What the kernels share at each SIMD level: float vectors out of float or bf16 arrays, tails, exp.
// Included once a level by Highway's foreach_target.h, hence the guard that toggles.
#if defined(DDPRUN_KERNELS_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DDPRUN_KERNELS_SIMD_INL_H
#undef DDPRUN_KERNELS_SIMD_INL_H
#else
#define DDPRUN_KERNELS_SIMD_INL_H
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "ddprun/kernels/this_cpu.h"
#include "ddprun/kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;  // as many lanes, half as wide
using Vector = hn::Vec<Floats>;

constexpr Floats kFloats;
constexpr Bits kBits;
constexpr Halves kHalves;

/// Which lanes of a vector are in the row: all, or the first `count` in its tail.
struct All {};
struct First {
  std::size_t count;
};

/// Calls body(lanes, index) for the consecutive vectors of [begin, end), which have D's type. The
/// body loads and stores with the lanes it is given, so one body serves whole vectors and tail.
template <class D, class Body>
HWY_INLINE void for_vectors_of(D d, std::int64_t begin, std::int64_t end, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t index = begin;
  for (; index + lanes <= end; index += lanes) body(All{}, index);
  if (index < end) body(First{static_cast<std::size_t>(end - index)}, index);
}
template <class Body>
HWY_INLINE void for_vectors(std::int64_t begin, std::int64_t end, const Body& body) {
  for_vectors_of(kFloats, begin, end, body);
}

/// Folds the vectors of [begin, end) into four partial results. Each is a chain of body(lanes,
/// index, partial) that begins with `initial`. Then combine(a, b) folds the four into one. A single
/// chain would wait for the latency of each operation, and round more often.
template <class Body, class Combine>
HWY_INLINE Vector fold(std::int64_t begin, std::int64_t end, Vector initial, const Body& body,
                       const Combine& combine) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kFloats));
  Vector a = initial;
  Vector b = initial;
  Vector c = initial;
  Vector d = initial;
  std::int64_t index = begin;
  for (; index + 4 * lanes <= end; index += 4 * lanes) {
    a = body(All{}, index, a);
    b = body(All{}, index + lanes, b);
    c = body(All{}, index + 2 * lanes, c);
    d = body(All{}, index + 3 * lanes, d);
  }
  for_vectors(index, end, [&](auto which, std::int64_t i) HWY_ATTR { a = body(which, i, a); });
  return combine(combine(a, b), combine(c, d));
}
template <class Body>
HWY_INLINE Vector fold_sum(std::int64_t begin, std::int64_t end, const Body& body) {
  return fold(begin, end, hn::Zero(kFloats), body,
              [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
}

// In a tail, the lanes beyond `count` are neither read nor written. They are 0 in the vector.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_lanes(D d, const T* from, All) {
  return hn::LoadU(d, from);
}
template <class D, class T>
HWY_INLINE hn::Vec<D> load_lanes(D d, const T* from, First lanes) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T values[hn::MaxLanes(D())] = {};
  std::memcpy(values, from, lanes.count * sizeof(T));  // it may not be aligned to T
  return hn::Load(d, values);
#else
  return hn::MaskedLoad(hn::FirstN(d, lanes.count), d, from);
#endif
}
template <class D, class T>
HWY_INLINE void store_lanes(D d, hn::Vec<D> vector, T* to, All) {
  hn::StoreU(vector, d, to);
}
template <class D, class T>
HWY_INLINE void store_lanes(D d, hn::Vec<D> vector, T* to, First lanes) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T values[hn::MaxLanes(D())];
  hn::Store(vector, d, values);
  std::memcpy(to, values, lanes.count * sizeof(T));
#else
  hn::BlendedStore(vector, hn::FirstN(d, lanes.count), d, to);
#endif
}

template <class Which>
HWY_INLINE Vector load(const float* from, Which lanes) {
  return load_lanes(kFloats, from, lanes);
}
template <class Which>
HWY_INLINE Vector load(const bf16* from, Which lanes) {
  const auto half = load_lanes(kHalves, reinterpret_cast<const std::uint16_t*>(from), lanes);
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(kBits, half)));
}

/// Loads from an array that is read once, and prefetches what comes later.
template <class T, class Which>
HWY_INLINE Vector load_ahead(const T* from, Which lanes) {
  hwy::Prefetch(from + kPrefetchAhead / sizeof(T));
  return load(from, lanes);
}

template <class Which>
HWY_INLINE void store(Vector vector, float* to, Which lanes) {
  store_lanes(kFloats, vector, to, lanes);
}
/// The bits of bf16 in the low halves of the lanes. Rounds to nearest even: adds just below half of
/// the last place that is kept, and the last place itself. A NaN could overflow into another
/// number, so bf16's own NaN replaces it.
HWY_INLINE hn::Vec<Bits> bf16_bits(Vector vector) {
  const auto bits = hn::BitCast(kBits, vector);
  const auto last_place = hn::And(hn::ShiftRight<16>(bits), hn::Set(kBits, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(kBits, 0x7FFFu)), last_place);
  const auto is_nan = hn::RebindMask(kBits, hn::IsNaN(vector));
  const auto kept = hn::IfThenElse(is_nan, hn::Set(kBits, 0x7FC00000u), rounded);
  return hn::ShiftRight<16>(kept);
}
/// The same bits, without the rest of the lanes.
HWY_INLINE hn::Vec<Halves> to_halves(Vector vector) {
#if HWY_TARGET <= HWY_AVX3
  // The instruction takes subnormal numbers for zero, and keeps some of the bits of a NaN.
  constexpr int kNanOrSubnormal = 0x01 | 0x80 | 0x20;
  if (kHasAvx512Bf16 && _mm512_fpclass_ps_mask(vector.raw, kNanOrSubnormal) == 0) [[likely]] {
    hn::Vec<Halves> halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves.raw) : "v"(vector.raw));
    return halves;
  }
#endif
  return hn::TruncateTo(kHalves, bf16_bits(vector));
}
/// Two vectors as bf16, side by side and in pairs, for products, which take subnormal numbers for
/// zero. So may this.
struct TwoRounded {
  hn::Vec<Halves> first, second;
  hn::Vec<Bits> pairs;
};
HWY_INLINE TwoRounded round_two(Vector first, Vector second) {
#if HWY_TARGET <= HWY_AVX3
  if (kHasAvx512Bf16) [[likely]] {
    alignas(64) static constexpr std::uint16_t kInTurn[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(first.raw), "v"(second.raw));
    return {hn::Vec<Halves>{_mm512_castsi512_si256(both)},
            hn::Vec<Halves>{_mm512_extracti64x4_epi64(both, 1)},
            hn::Vec<Bits>{_mm512_permutexvar_epi16(_mm512_load_si512(kInTurn), both)}};
  }
#endif
  const auto low = bf16_bits(first);
  const auto high = bf16_bits(second);
  return {hn::TruncateTo(kHalves, low), hn::TruncateTo(kHalves, high),
          hn::Or(low, hn::ShiftLeft<16>(high))};
}
template <class Which>
HWY_INLINE void store(Vector vector, bf16* to, Which lanes) {
  store_lanes(kHalves, to_halves(vector), reinterpret_cast<std::uint16_t*>(to), lanes);
}

/// Whether stream() may write there. Highway's writes no less than 16 bytes.
HWY_INLINE bool can_stream(const bf16* to) {
  constexpr std::size_t kBytes = hn::MaxLanes(kHalves) * sizeof(std::uint16_t);
  return kBytes >= 16 && reinterpret_cast<std::uintptr_t>(to) % kBytes == 0;
}
/// Stores past the caches: no line is fetched that is only written. For arrays that nobody reads
/// soon; hwy::FlushStream() ends them.
template <class Which>
HWY_INLINE void stream(Vector vector, bf16* to, Which lanes) {
  if constexpr (std::is_same_v<Which, All>) {
    hn::Stream(to_halves(vector), kHalves, reinterpret_cast<std::uint16_t*>(to));
  } else {
    store(vector, to, lanes);
  }
}

HWY_INLINE float sum_of_lanes(Vector vector) {
  return hn::GetLane(hn::SumOfLanes(kFloats, vector));
}
HWY_INLINE float max_of_lanes(Vector vector) {
  return hn::GetLane(hn::MaxOfLanes(kFloats, vector));
}

/// e^x within 2 units in the last place for -87 <= x <= 87, where neither it nor its inverse is
/// subnormal, and NaN for NaN, where Highway's own Exp gives 0.
/// Method: x = n ln 2 + r, |r| <= ln 2 / 2, e^x = 2^n e^r.
HWY_INLINE Vector exp_of_normal(Vector x) {
  // Adding 1.5 * 2^23 rounds to an integer, which the sum then holds in its low bits. Adding 127
  // too makes these the exponent bits of 2^n.
  const Vector shift = hn::Set(kFloats, 0x1.8p23f + 127.0f);
  const Vector shifted = hn::MulAdd(x, hn::Set(kFloats, 1.44269504f), shift);
  const Vector n = hn::Sub(shifted, shift);
  // ln 2 in two parts; n times the first part is exact.
  Vector r = hn::NegMulAdd(n, hn::Set(kFloats, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(kFloats, -2.12194440e-4f), r);
  // Minimax polynomial of (e^r - 1 - r) / r^2, by Estrin's scheme: short chains of operations.
  const Vector r2 = hn::Mul(r, r);
  const Vector low = hn::MulAdd(r, hn::Set(kFloats, 0.166665196f), hn::Set(kFloats, 0.49999994f));
  Vector p = hn::MulAdd(r, hn::Set(kFloats, 0.00836889911f), hn::Set(kFloats, 0.0416684039f));
  p = hn::MulAdd(hn::MulAdd(r2, hn::Set(kFloats, 0.00138142216f), p), r2, low);
  const Vector power = hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::BitCast(kBits, shifted)));
  return hn::MulAdd(power, hn::MulAdd(p, r2, r), power);
}
/// The same, and 0 below -87. x is at most 87.
HWY_INLINE Vector exp(Vector x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(kFloats, -87.0f)), exp_of_normal(x));
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class F>
F* copy_for_this_cpu(F* const (&copies)[HWY_MAX_DYNAMIC_TARGETS + 1]) {
  hwy::ChosenTarget& target = hwy::GetChosenTarget();
  if (target.GetIndex() == 0) target.Update(hwy::SupportedTargets());
  return copies[target.GetIndex() - 1];
}

/// As HWY_DYNAMIC_DISPATCH, for templates: of the levels' copies of a function template, that for
/// this CPU. It stands in the template of the same name, parameters and types that callers see.
#define DDPRUN_DISPATCH(function, ...)                                    \
  copy_for_this_cpu([]() -> const auto& {                                 \
    static constexpr decltype(function<__VA_ARGS__>)* kCopies[] = {       \
        HWY_CHOOSE_TARGET_LIST(function), HWY_CHOOSE_FALLBACK(function)}; \
    return kCopies;                                                       \
  }())

}  // namespace ddprun::kernels
#endif

#endif
