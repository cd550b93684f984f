// The small integers of the proof: what each rank adds to each gradient, and how far from the exact
// mean rounding can take a right reduction.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/base/counter_hash.h"
#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Two contributions make up each gradient: small integers, not zero, of two ranks (both of the
/// same rank if there is only one). The first of the two goes through all ranks in each `ranks`
/// consecutive elements, so that every rank is covered. A rank's gradient is its integer times the
/// number of ranks. So the mean is the sum of the two integers, whether a backend divides before
/// adding or after. Pure arithmetic: any element of any rank can be computed anywhere.
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

  /// `micro_batches`: backwards that add up to a gradient. `dtype`: of the gradients that ranks
  /// exchange, float32 or bfloat16. Other `round`s give other integers.
  ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype, std::uint64_t round);

  using Contributions = std::array<Contribution, 2>;

  Contributions contributions(std::int64_t element) const;
  /// Calls f(element, contributions) for each element of a range, without a division for each.
  template <class F>
  void for_each(Range elements, const F& f) const;

  /// What `rank` writes into the gradient of an element in `micro_batch`.
  float gradient(const Contributions& both, int rank, int micro_batch) const;
  /// The exact mean over all ranks of their sums over micro-batches.
  float mean(const Contributions& both) const;
  /// The sum over micro-batches of one rank alone: what it keeps if nothing is exchanged.
  float own(const Contributions& both, int rank) const;

  int range() const { return range_; }
  /// True if no partial sum and no division rounds, by the number of ranks or by its reciprocal in
  /// float32: then every right reduction gives the mean bit by bit.
  bool exact() const { return exact_; }
  /// How far a right reduction may be from mean(): 0 if exact(), else 4 roundings of the dtype of
  /// the two integers' sizes (two gradients that were rounded, their sum, and the division).
  float bound(const Contributions& both) const;

 private:
  /// Where the ranks of a block of `ranks` elements begin: a shifted buffer does not fit.
  int first_rank(std::int64_t block) const {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    return static_cast<int>(
        (counter_hash(~round_, static_cast<std::uint64_t>(block)) >> 32) * ranks >> 32);
  }
  Contributions contributions(std::int64_t element, int rank) const;

  int ranks_, micro_batches_;
  std::uint64_t round_;
  int range_ = 1;
  bool exact_ = true;
  float rounding_;  // the dtype's largest relative error
};

inline ProofIntegers::Contributions ProofIntegers::contributions(std::int64_t element,
                                                                 int rank) const {
  std::uint64_t bits = counter_hash(round_, static_cast<std::uint64_t>(element));
  // Some of the bits as a number below `count`.
  const auto take = [&bits](int width, int count) {
    const std::uint64_t taken = bits & ((std::uint64_t{1} << width) - 1);
    bits >>= width;
    return static_cast<int>(taken * static_cast<std::uint64_t>(count) >> width);
  };
  const auto value = [&] {
    const int size = 1 + take(8, range_);
    return take(1, 2) == 0 ? size : -size;
  };
  int other = rank + 1 + take(32, ranks_ - 1);
  if (other >= ranks_) other -= ranks_;
  Contributions both;
  both[0] = {rank, take(7, micro_batches_), value()};
  both[1] = {other, take(7, micro_batches_), value()};
  return both;
}

template <class F>
void ProofIntegers::for_each(Range elements, const F& f) const {
  std::int64_t block = elements.begin / ranks_;
  int place = static_cast<int>(elements.begin % ranks_);
  int first = first_rank(block);
  for (std::int64_t element = elements.begin; element < elements.end; ++element) {
    const int rank = first + place;
    f(element, contributions(element, rank < ranks_ ? rank : rank - ranks_));
    if (++place < ranks_) continue;
    place = 0;
    first = first_rank(++block);
  }
}

inline float ProofIntegers::gradient(const Contributions& both, int rank, int micro_batch) const {
  int sum = 0;
  for (const Contribution& each : both) {
    if (each.rank == rank && each.micro_batch == micro_batch) sum += each.value;
  }
  return static_cast<float>(sum * ranks_);
}

inline float ProofIntegers::mean(const Contributions& both) const {
  return static_cast<float>(both[0].value + both[1].value);
}

inline float ProofIntegers::own(const Contributions& both, int rank) const {
  int sum = 0;
  for (const Contribution& each : both) {
    if (each.rank == rank) sum += each.value;
  }
  return static_cast<float>(sum * ranks_);
}

}  // namespace ddprun
