// Which integers the proof takes, by how many ranks exchange them in which dtype.
#include "ddprun/proof/proof_integers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ddprun {

namespace {

/// Beyond them values lose bits: both dtypes have the exponents of float32.
constexpr int kSmallestExponent = -126;

int significant_bits(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 8 : 24; }

/// Powers of two in the number of ranks cost no bits.
int odd_part(int ranks) {
  while (ranks % 2 == 0) ranks /= 2;
  return ranks;
}

/// The largest range with which an integer, and so the sum of two whose last bits are equal, has no
/// more than the dtype's significant bits when it is multiplied by the number of ranks.
int range_for(int ranks, at::ScalarType dtype) {
  return std::max(1, (1 << significant_bits(dtype)) / odd_part(ranks));
}

/// Whether a float32 of any bits, times `count` and then times its reciprocal in float32, is what
/// it was: the reciprocal is off by so little that rounding the product takes it away.
bool reciprocal_is_exact(int count) {
  const double off = static_cast<double>(1.0F / static_cast<float>(count)) * count - 1;
  return std::abs(off) <= 0x1p-25;
}

/// A strategy may average in two stages, so each divisor counts.
bool never_rounds(int ranks, at::ScalarType dtype) {
  if (odd_part(ranks) > 1 << significant_bits(dtype)) return false;
  if (dtype == at::kBFloat16) return true;  // the product is rounded to 8 bits of its 24
  for (int divisor = 1; divisor <= ranks; ++divisor) {
    if (ranks % divisor == 0 && !reciprocal_is_exact(divisor)) return false;
  }
  return true;
}

}  // namespace

double largest_rounding(at::ScalarType dtype) { return std::ldexp(1.0, -significant_bits(dtype)); }

ProofIntegers::ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype,
                             std::uint64_t round)
    : ranks_(ranks),
      micro_batches_(micro_batches),
      round_(round),
      range_(range_for(ranks, dtype)),
      exact_(never_rounds(ranks, dtype)),
      rounding_(static_cast<float>(largest_rounding(dtype))),
      smallest_(std::ldexp(1.0F, kSmallestExponent + 1 - significant_bits(dtype))) {
  for (int i = 0; i < kUnits; ++i) {
    units_[i] = std::ldexp(1.0F, -significant_bits(dtype) - 2 * i);
  }
}

ProofIntegers ProofIntegers::silent() const {
  ProofIntegers zeros = *this;
  zeros.units_.fill(0);
  zeros.smallest_ = 0;
  return zeros;
}

ProofIntegers::Contributions ProofIntegers::contributions(std::int64_t element) const {
  Contributions found;
  for_each({element, element + 1}, [&](std::int64_t, const Contributions& of) { found = of; });
  return found;
}

float ProofIntegers::bound(const Contributions& of) const {
  if (exact_) return 0.0F;
  const auto sizes =
      static_cast<float>(std::abs(of.both[0].value) + std::abs(of.both[1].value)) * of.unit;
  return 4 * std::max(rounding_ * sizes, smallest_);
}

}  // namespace ddprun
