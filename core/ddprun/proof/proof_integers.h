// The integers of the proof: what each rank adds to each gradient, and how far from the exact
// mean rounding can take a right reduction.
#pragma once

#include <cstdint>

#include "ddprun/kernels/rows/drawn_integers.h"
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
  static constexpr std::int64_t kOverflowEach = 1021;

  /// What makes up an element; values lie in [-range(), range()].
  using Contributions = kernels::DrawnIntegers;

  /// `micro_batches`: backwards that add up to a gradient, 1 or 2. `dtype`: of the gradients that
  /// ranks exchange, float32 or bfloat16. Other `round`s give other integers.
  ProofIntegers(int ranks, int micro_batches, at::ScalarType dtype, std::uint64_t round);

  /// The same ranks with a gradient of zero each: a round in which there is nothing new to send.
  ProofIntegers silent() const;

  /// The same ranks, but one element of each kOverflowEach is infinite or NaN on the first of its
  /// two ranks, and so is its mean.
  ProofIntegers overflowing() const;

  /// Of each element of a range, into out: what `rank` writes into its gradient in `micro_batch`;
  /// of kEach micro-batch their sum, which is what it keeps if nothing is exchanged; and of kEach
  /// rank the exact mean of that.
  void write(Range elements, int rank, int micro_batch, float* out) const;
  Contributions contributions(std::int64_t element) const;

  int range() const { return 1 << draw_.size_bits; }
  /// True if no partial sum and no division rounds, by the number of ranks or by its reciprocal in
  /// float32: then every right reduction gives the mean bit by bit.
  bool exact() const { return exact_; }
  /// How far a right reduction may be from the mean: 0 if exact(), else 4 roundings of the dtype of
  /// the two integers' sizes (two gradients that were rounded, their sum, and the division).
  float bound(const Contributions& of) const;

 private:
  kernels::IntegerDraw draw_;
  bool silent_ = false, overflowing_ = false;
  bool exact_ = true;
  float rounding_;  // the dtype's largest relative error
};

}  // namespace ddprun
