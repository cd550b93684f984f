// The small integers of the proof: what each rank adds to each gradient, and how far from the exact
// mean rounding can take a right reduction.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Two contributions make up each gradient: small integers, not zero, of two ranks (both of the
/// same rank if there is only one). The first of the two goes through all ranks in each `ranks`
/// consecutive elements, so that every rank is covered. A rank's gradient is its integer times the
/// number of ranks. So the mean is the sum of the two integers, whether a backend divides before
/// adding or after. Pure arithmetic: any element of any rank can be computed anywhere.
class ProofIntegers {
 public:
  /// One of the two contributions to an element.
  struct Contribution {
    int rank = 0;
    int micro_batch = 0;
    int value = 0;  ///< in [-range(), range()], not 0
  };

  /// `micro_batches`: backwards that add up to a gradient. `dtype`: of the gradients that ranks
  /// exchange, float32 or bfloat16. Other `round`s give other integers.
  ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype, std::uint64_t round);

  std::array<Contribution, 2> contributions(std::int64_t element) const;
  /// What `rank` writes into the gradient of `element` in `micro_batch`.
  float gradient(std::int64_t element, int rank, int micro_batch) const;
  /// The exact mean over all ranks of their sums over micro-batches.
  float mean(std::int64_t element) const;
  /// The sum over micro-batches of one rank alone: what it keeps if nothing is exchanged.
  float own(std::int64_t element, int rank) const;

  int range() const { return range_; }
  /// True if no partial sum and no division rounds, by the number of ranks or by its reciprocal in
  /// float32: then every right reduction gives the mean bit by bit.
  bool exact() const { return exact_; }
  /// How far a right reduction may be from mean(): 0 if exact(), else 4 roundings of the dtype of
  /// the two integers' sizes (two gradients that were rounded, their sum, and the division).
  float bound(std::int64_t element) const;

 private:
  int ranks_, micro_batches_;
  std::uint64_t round_;
  int range_ = 1;
  bool exact_ = true;
  float rounding_;  // the dtype's largest relative error
};

}  // namespace ddprun
