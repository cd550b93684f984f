// Box-Muller, a vector at a time. Logarithm and cosine are computed in float64 and rounded to
// float32, by the methods and constants of Arm's optimized routines (MIT licence): glibc's, too.
#include "ddprun/kernels/rows/normal_values.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/normal_values.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

#ifndef DDPRUN_NORMAL_VALUES
#define DDPRUN_NORMAL_VALUES
namespace ddprun::kernels {

constexpr float kCut = 3.0F;
constexpr int kLogIntervals = 16;
/// 1 / c and log c of each interval, whose c is near its middle.
alignas(64) constexpr double kInverses[kLogIntervals] = {
    0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0,
    0x1.49539f0f010bp+0,  0x1.3c995b0b80385p+0,
    0x1.30d190c8864a5p+0, 0x1.25e227b0b8eap+0,
    0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0,
    0x1.0953f419900a7p+0, 0x1p+0,
    0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,
    0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1,
    0x1.886e6037841edp-1, 0x1.767dcf5534862p-1};
alignas(64) constexpr double kLogs[kLogIntervals] = {-0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2,
                                                     -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3,
                                                     -0x1.6574f0ac07758p-3, -0x1.1aa2bc79c81p-3,
                                                     -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4,
                                                     -0x1.252f438e10c1ep-5, 0x0p+0,
                                                     0x1.aa5aa5df25984p-5,  0x1.c5e53aa362eb4p-4,
                                                     0x1.526e57720db08p-3,  0x1.bc2860d22477p-3,
                                                     0x1.1058bc8a07ee1p-2,  0x1.4043057b6ee09p-2};

}  // namespace ddprun::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

using Doubles = hn::ScalableTag<double>;
using LongBits = hn::RebindToUnsigned<Doubles>;
using FewFloats = hn::Rebind<float, Doubles>;  // as many lanes
using Double = hn::Vec<Doubles>;
using Long = hn::Vec<LongBits>;
using Few = hn::Vec<FewFloats>;

constexpr Doubles kDoubles;
constexpr LongBits kLongBits;
constexpr FewFloats kFewFloats;

HWY_INLINE Double number(double value) { return hn::Set(kDoubles, value); }
HWY_INLINE Few few(float value) { return hn::Set(kFewFloats, value); }
HWY_INLINE Long bits(std::uint64_t value) { return hn::Set(kLongBits, value); }

/// mix_bits() of base/counter_hash.h.
HWY_INLINE Long mixed(Long x) {
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<30>(x)), bits(0xBF58476D1CE4E5B9U));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<27>(x)), bits(0x94D049BB133111EBU));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

/// Of whole numbers below 2^52, which are the low bits of their sums with 2^52.
HWY_INLINE Double to_double(Long numbers) {
  const Double shift = number(0x1p52);
  const Long sums = hn::Or(numbers, hn::BitCast(kLongBits, shift));
  return hn::Sub(hn::BitCast(kDoubles, sums), shift);
}

/// log x of 2^-60 <= x < 1. Method: x = 2^k z, and c near z: log1p(z / c - 1) + log c + k log 2.
HWY_INLINE Few log(Double x) {
  constexpr std::uint64_t kExponent = 0xFFF0000000000000U, kLargest = 64;
  const Long all = hn::BitCast(kLongBits, x);
  const Long off = hn::Sub(all, bits(0x3FE6600000000000U));  // where the first interval begins
  const Double z = hn::BitCast(kDoubles, hn::Sub(all, hn::And(off, bits(kExponent))));
  const Long above = hn::ShiftRight<52>(hn::Add(off, bits(kLargest << 52)));  // k + kLargest
  const Double k = hn::Sub(to_double(above), number(kLargest));
  const auto interval = hn::BitCast(hn::RebindToSigned<Doubles>(),
                                    hn::And(hn::ShiftRight<48>(off), bits(kLogIntervals - 1)));
  const Double r = hn::MulSub(z, hn::GatherIndex(kDoubles, kInverses, interval), number(1));
  const Double log_c_k =
      hn::MulAdd(k, number(0x1.62e42fefa39efp-1), hn::GatherIndex(kDoubles, kLogs, interval));
  const Double r2 = hn::Mul(r, r);
  Double y = hn::MulAdd(number(0x1.5575b0be00b6ap-2), r, number(-0x1.ffffef20a4123p-2));
  y = hn::MulAdd(number(-0x1.00ea348b88334p-2), r2, y);
  return hn::DemoteTo(kFewFloats, hn::MulAdd(y, r2, hn::Add(log_c_k, r)));
}

/// cos x of 0 <= x < 100. Method: sine or cosine of x - n pi / 2, which is within pi / 4.
HWY_INLINE Few cos(Double x) {
  const Double rounding = number(0x1.8p52);  // what is added to it is rounded to its low bits
  const Double shifted = hn::MulAdd(x, number(0x1.45F306DC9C883p-1), rounding);
  const Long n = hn::BitCast(kLongBits, shifted);
  x = hn::NegMulAdd(hn::Sub(shifted, rounding), number(0x1.921FB54442D18p0), x);
  const Double x2 = hn::Mul(x, x);
  const Double x3 = hn::Mul(x, x2), x4 = hn::Mul(x2, x2);
  const Double s1 = hn::MulAdd(x2, number(-0x1.994eb3774cf24p-13), number(0x1.1107605230bc4p-7));
  const Double s = hn::MulAdd(x3, number(-0x1.555545995a603p-3), x);
  const Double sine = hn::MulAdd(hn::Mul(x3, x2), s1, s);
  const Double c2 = hn::MulAdd(x2, number(0x1.99343027bf8c3p-16), number(-0x1.6c087e89a359dp-10));
  const Double c1 = hn::MulAdd(x2, number(-0x1.ffffffd0c621cp-2), number(1));
  const Double c = hn::MulAdd(x4, number(0x1.55553e1068f19p-5), c1);
  const Double cosine = hn::MulAdd(hn::Mul(x4, x2), c2, c);
  const auto odd = hn::RebindMask(kDoubles, hn::Ne(hn::And(n, bits(1)), hn::Zero(kLongBits)));
  // n = 1 and 2, modulo 4, are below zero.
  const Long sign = hn::ShiftLeft<62>(hn::And(hn::Add(n, bits(1)), bits(2)));
  const Double turned = hn::IfThenElse(odd, sine, cosine);
  return hn::DemoteTo(kFewFloats, hn::Xor(turned, hn::BitCast(kDoubles, sign)));
}

/// The cosine half of Box-Muller from two uniforms of 23 bits, both exact in float32.
HWY_INLINE Few standard_normal(Long random) {
  const Double radius =
      hn::Mul(hn::Add(to_double(hn::ShiftRight<41>(random)), number(0.5)), number(0x1p-23));
  const Few angle =
      hn::Mul(few(0x1.921fb6p2F),  // 2 pi
              hn::DemoteTo(kFewFloats,
                           hn::Mul(to_double(hn::And(random, bits(0x7FFFFF))), number(0x1p-23))));
  return hn::Mul(hn::Sqrt(hn::Mul(few(-2.0F), log(radius))), cos(hn::PromoteTo(kDoubles, angle)));
}

/// Drawn again beyond the cut: 1 in 370.
HWY_INLINE Few cut_normal(Long random) {
  Few values = standard_normal(random);
  while (true) {
    const auto beyond = hn::Gt(hn::Abs(values), few(kCut));
    if (hn::AllFalse(kFewFloats, beyond)) return values;
    random = mixed(hn::Add(random, bits(1)));
    values = hn::IfThenElse(beyond, standard_normal(random), values);
  }
}

void write_normal_values(std::uint64_t key, std::int64_t begin, std::int64_t end, float scale,
                         float* out) {
  constexpr std::uint64_t kStride = 0x9E3779B97F4A7C15U;
  const Long strides = hn::Mul(hn::Iota(kLongBits, 1U), bits(kStride));  // of the lanes
  for_vectors_of(kDoubles, begin, end, [&](auto lanes, std::int64_t i) HWY_ATTR {
    const Long random =
        mixed(hn::Add(strides, bits(key + static_cast<std::uint64_t>(i) * kStride)));
    store_lanes(kFewFloats, hn::Mul(few(scale), cut_normal(random)), out + (i - begin), lanes);
  });
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(write_normal_values);

void write_normal_values(std::uint64_t key, std::int64_t begin, std::int64_t end, float scale,
                         float* out) {
  HWY_DYNAMIC_DISPATCH(write_normal_values)(key, begin, end, scale, out);
}

}  // namespace ddprun::kernels
#endif
