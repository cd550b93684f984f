// Which integers the proof takes, by how many ranks exchange them in which dtype.
#include "ddprun/proof/proof_integers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ddprun/base/counter_hash.h"

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

/// Of the largest power of two with which an integer, and so the sum of two whose last bits are
/// equal, has no more than the dtype's significant bits when it is multiplied by the number of
/// ranks.
int size_bits(int ranks, at::ScalarType dtype) {
  const int largest = std::max(1, (1 << significant_bits(dtype)) / odd_part(ranks));
  return std::bit_width(static_cast<unsigned>(largest)) - 1;
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
    : draw_{.key = counter_hash(round, 0),
            .ranks = ranks,
            .micro_batches = micro_batches,
            .first_rank = static_cast<int>(counter_hash(round, 1) % static_cast<unsigned>(ranks)),
            .size_bits = size_bits(ranks, dtype),
            .unit_exponent = -significant_bits(dtype),
            .smallest = std::ldexp(1.0F, kSmallestExponent + 1 - significant_bits(dtype))},
      exact_(never_rounds(ranks, dtype)),
      rounding_(static_cast<float>(largest_rounding(dtype))) {}

ProofIntegers ProofIntegers::silent() const {
  ProofIntegers zeros = *this;
  zeros.silent_ = true;
  return zeros;
}

ProofIntegers ProofIntegers::overflowing() const {
  ProofIntegers some = *this;
  some.overflowing_ = true;
  return some;
}

void ProofIntegers::write(Range elements, int rank, int micro_batch, float* out) const {
  if (silent_) {
    std::fill_n(out, elements.size(), 0.0F);
    return;
  }
  kernels::sum_drawn_integers(draw_, elements.begin, elements.end, rank, micro_batch, out);
  if (!overflowing_) return;
  const auto first = static_cast<std::int64_t>(draw_.key % kOverflowEach);
  const std::int64_t ahead = first + kOverflowEach - elements.begin % kOverflowEach;
  for (std::int64_t i = elements.begin + ahead % kOverflowEach; i < elements.end;
       i += kOverflowEach) {
    const kernels::DrawnInteger one = kernels::drawn_integers(draw_, i).both[0];
    const bool here = rank == kernels::kEach || rank == one.rank;
    const bool now = micro_batch == kernels::kEach || micro_batch == one.micro_batch;
    if (!here || !now) continue;
    using Limits = std::numeric_limits<float>;
    out[i - elements.begin] = one.value > 0 ? Limits::infinity() : Limits::quiet_NaN();
  }
}

ProofIntegers::Contributions ProofIntegers::contributions(std::int64_t element) const {
  Contributions of = kernels::drawn_integers(draw_, element);
  if (silent_) of.unit = 0;
  return of;
}

float ProofIntegers::bound(const Contributions& of) const {
  if (exact_) return 0.0F;
  const auto sizes =
      static_cast<float>(std::abs(of.both[0].value) + std::abs(of.both[1].value)) * of.unit;
  return 4 * std::max(rounding_ * sizes, silent_ ? 0 : draw_.smallest);
}

}  // namespace ddprun
