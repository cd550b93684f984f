// Which integers the proof takes, by how many ranks exchange them in which dtype.
#include "ddprun/train/proof_integers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ddprun/base/counter_hash.h"

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

std::array<ProofIntegers::Contribution, 2> ProofIntegers::contributions(
    std::int64_t element) const {
  // Bits are scaled to a number below `count`, not divided: this runs for each element of a model.
  const auto index = static_cast<std::uint64_t>(element);
  const auto ranks = static_cast<std::uint64_t>(ranks_);
  std::uint64_t bits = counter_hash(round_, index);
  const auto take = [&bits](int width, int count) {
    const std::uint64_t taken = bits & ((std::uint64_t{1} << width) - 1);
    bits >>= width;
    return static_cast<int>(taken * static_cast<std::uint64_t>(count) >> width);
  };
  const auto value = [&] {
    const int size = 1 + take(8, range_);
    return take(1, 2) == 0 ? size : -size;
  };
  // Each block of `ranks` elements begins at another rank, so a shifted buffer does not fit.
  const std::uint64_t block = index / ranks;
  const std::uint64_t shift = (counter_hash(~round_, block) >> 32) * ranks >> 32;
  const std::uint64_t turn = index - block * ranks + shift;
  const int first = static_cast<int>(turn < ranks ? turn : turn - ranks);
  int second = first + 1 + take(32, ranks_ - 1);
  if (second >= ranks_) second -= ranks_;
  std::array<Contribution, 2> both;
  both[0] = {first, take(7, micro_batches_), value()};
  both[1] = {second, take(7, micro_batches_), value()};
  return both;
}

float ProofIntegers::gradient(std::int64_t element, int rank, int micro_batch) const {
  int sum = 0;
  for (const Contribution& each : contributions(element)) {
    if (each.rank == rank && each.micro_batch == micro_batch) sum += each.value;
  }
  return static_cast<float>(sum * ranks_);
}

float ProofIntegers::mean(std::int64_t element) const {
  const auto both = contributions(element);
  return static_cast<float>(both[0].value + both[1].value);
}

float ProofIntegers::own(std::int64_t element, int rank) const {
  int sum = 0;
  for (const Contribution& each : contributions(element)) {
    if (each.rank == rank) sum += each.value;
  }
  return static_cast<float>(sum * ranks_);
}

float ProofIntegers::bound(std::int64_t element) const {
  if (exact_) return 0.0F;
  const auto both = contributions(element);
  return 4 * rounding_ * static_cast<float>(std::abs(both[0].value) + std::abs(both[1].value));
}

}  // namespace ddprun
