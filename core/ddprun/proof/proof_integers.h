// The integers of the proof: what each rank adds to each gradient, and how far from the exact
// mean rounding can take a right reduction.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/base/counter_hash.h"
#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// The largest relative error of rounding to float32 or bfloat16.
double largest_rounding(at::ScalarType dtype);

/// Two contributions make up each gradient: integers, not zero, of two ranks (both of the same rank
/// if there is only one), times a power of two that is the element's. The first of the two goes
/// through all ranks in each `ranks` consecutive elements, so that every rank is covered. The
/// integers have all the bits that the dtype and the number of ranks allow; both are even or both
/// odd, so that their sum needs no bit more. The powers of two take them over the sizes that
/// gradients have, from 1 down to 2^-30, and some to denormals. A rank's gradient is its integer
/// times the number of ranks. So the mean is the sum of the two integers, whether a backend divides
/// before adding or after. Pure arithmetic: any element of any rank can be computed anywhere.
class ProofIntegers {
 public:
  static constexpr std::int64_t kGrain = 32768;  ///< elements worth a thread's start

  /// One of the two contributions to an element.
  struct Contribution {
    int rank = 0;
    int micro_batch = 0;
    int value = 0;  ///< in [-range(), range()], not 0
    bool operator==(const Contribution&) const = default;
  };

  /// What makes up an element.
  struct Contributions {
    std::array<Contribution, 2> both = {};
    float unit = 1;  ///< the power of two by which the integers are multiplied
    bool operator==(const Contributions&) const = default;
  };

  /// `micro_batches`: backwards that add up to a gradient, 1 or 2. `dtype`: of the gradients that
  /// ranks exchange, float32 or bfloat16. Other `round`s give other integers.
  ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype, std::uint64_t round);

  /// The same ranks with a gradient of zero each: a round in which there is nothing new to send.
  ProofIntegers silent() const;

  Contributions contributions(std::int64_t element) const;
  /// Calls f(element, contributions) for each element of a range, without a division for each.
  template <class F>
  void for_each(Range elements, const F& f) const;

  /// What `rank` writes into the gradient of an element in `micro_batch`.
  float gradient(const Contributions& of, int rank, int micro_batch) const;
  /// The exact mean over all ranks of their sums over micro-batches.
  float mean(const Contributions& of) const;
  /// The sum over micro-batches of one rank alone: what it keeps if nothing is exchanged.
  float own(const Contributions& of, int rank) const;

  int range() const { return range_; }
  /// True if no partial sum and no division rounds, by the number of ranks or by its reciprocal in
  /// float32: then every right reduction gives the mean bit by bit.
  bool exact() const { return exact_; }
  /// How far a right reduction may be from mean(): 0 if exact(), else 4 roundings of the dtype of
  /// the two integers' sizes (two gradients that were rounded, their sum, and the division).
  float bound(const Contributions& of) const;

 private:
  static constexpr int kUnits = 16;  // a factor of 4 from one to the next

  /// What is drawn for a block of `ranks` elements.
  struct Block {
    int first_rank;  // where its ranks begin: a shifted buffer does not fit
    bool denormal;   // 1 in 64
  };
  Block block(std::int64_t index) const {
    const std::uint64_t bits = counter_hash(~round_, static_cast<std::uint64_t>(index));
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    return {static_cast<int>((bits >> 32) * ranks >> 32), bits % 64 == 0};
  }
  Contributions contributions(std::int64_t element, int rank, bool denormal) const;
  static float sum_times(int sum, int ranks, float unit) {
    return static_cast<float>(sum) * static_cast<float>(ranks) * unit;
  }

  int ranks_, micro_batches_;
  std::uint64_t round_;
  int range_ = 1;
  bool exact_ = true;
  float rounding_;                   // the dtype's largest relative error
  std::array<float, kUnits> units_;  // of the elements' powers of two
  float smallest_;                   // of the dtype: the power of two of denormal elements
};

inline ProofIntegers::Contributions ProofIntegers::contributions(std::int64_t element, int rank,
                                                                 bool denormal) const {
  std::uint64_t bits = counter_hash(round_, static_cast<std::uint64_t>(element));
  // Some of the bits as a number below `count`; 64 of them are taken.
  const auto take = [&bits](int width, int count) {
    const std::uint64_t taken = bits & ((std::uint64_t{1} << width) - 1);
    bits >>= width;
    return static_cast<int>(taken * static_cast<std::uint64_t>(count) >> width);
  };
  // Nothing here branches by a drawn bit: it would be foreseen half of the time.
  const auto signed_by = [&](int size) { return size * (1 - 2 * take(1, 2)); };
  int other = rank + 1 + take(8, ranks_ - 1);
  other -= other >= ranks_ ? ranks_ : 0;
  const int size = 1 + take(24, range_);
  int other_size = 1 + take(24, range_);
  other_size += ((size ^ other_size) & 1) * (other_size > 1 ? -1 : 1);  // an even sum
  Contributions of;
  of.both[0] = {rank, take(1, micro_batches_), signed_by(size)};
  of.both[1] = {other, take(1, micro_batches_), signed_by(other_size)};
  of.unit = denormal ? smallest_ : units_[take(4, kUnits)];
  return of;
}

template <class F>
void ProofIntegers::for_each(Range elements, const F& f) const {
  std::int64_t index = elements.begin / ranks_;
  int place = static_cast<int>(elements.begin % ranks_);
  Block drawn = block(index);
  for (std::int64_t element = elements.begin; element < elements.end; ++element) {
    const int rank = drawn.first_rank + place;
    f(element, contributions(element, rank < ranks_ ? rank : rank - ranks_, drawn.denormal));
    if (++place < ranks_) continue;
    place = 0;
    drawn = block(++index);
  }
}

inline float ProofIntegers::gradient(const Contributions& of, int rank, int micro_batch) const {
  int sum = 0;
  for (const Contribution& each : of.both) {
    sum += each.value * static_cast<int>(each.rank == rank) *
           static_cast<int>(each.micro_batch == micro_batch);
  }
  return sum_times(sum, ranks_, of.unit);
}

inline float ProofIntegers::mean(const Contributions& of) const {
  return sum_times(of.both[0].value + of.both[1].value, 1, of.unit);
}

inline float ProofIntegers::own(const Contributions& of, int rank) const {
  int sum = 0;
  for (const Contribution& each : of.both) {
    sum += each.value * static_cast<int>(each.rank == rank);
  }
  return sum_times(sum, ranks_, of.unit);
}

}  // namespace ddprun
