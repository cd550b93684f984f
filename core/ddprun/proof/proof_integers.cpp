// Which integers the proof takes, by how many ranks exchange them in which dtype.
#include "ddprun/proof/proof_integers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ddprun {

namespace {

constexpr int kLargestInteger = 127;

int significant_bits(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 8 : 24; }

float rounded(float value, at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? static_cast<float>(at::BFloat16(value)) : value;
}

/// The largest range with which every sum of two integers, times the number of ranks, has no more
/// than the dtype's significant bits. Powers of two in the number of ranks cost no bits.
int range_for(int ranks, at::ScalarType dtype) {
  int odd = ranks;
  while (odd % 2 == 0) odd /= 2;
  const std::int64_t limit = std::int64_t{1} << significant_bits(dtype);
  return static_cast<int>(std::clamp<std::int64_t>(limit / (2 * odd), 1, kLargestInteger));
}

/// Tries every sum that can occur.
bool never_rounds(int ranks, int range, at::ScalarType dtype) {
  const auto size = static_cast<float>(ranks);
  const float reciprocal = 1.0F / size;
  for (int sum = 1; sum <= 2 * range; ++sum) {
    const auto mean = static_cast<float>(sum);
    const float total = mean * size;
    if (rounded(mean, dtype) != mean || rounded(total, dtype) != total ||
        rounded(total * reciprocal, dtype) != mean) {
      return false;
    }
  }
  return true;
}

}  // namespace

ProofIntegers::ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype,
                             std::uint64_t round)
    : ranks_(ranks),
      micro_batches_(micro_batches),
      round_(round),
      range_(range_for(ranks, dtype)),
      exact_(never_rounds(ranks, range_, dtype)),
      rounding_(std::ldexp(1.0F, -significant_bits(dtype))) {}

ProofIntegers::Contributions ProofIntegers::contributions(std::int64_t element) const {
  Contributions found;
  for_each({element, element + 1}, [&](std::int64_t, const Contributions& both) { found = both; });
  return found;
}

float ProofIntegers::bound(const Contributions& both) const {
  if (exact_) return 0.0F;
  return 4 * rounding_ * static_cast<float>(std::abs(both[0].value) + std::abs(both[1].value));
}

}  // namespace ddprun
