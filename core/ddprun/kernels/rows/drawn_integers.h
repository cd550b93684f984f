// Random integers of two ranks for each element of a gradient: what the proof puts in its place.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun::kernels {

/// How integers are drawn, for all elements.
struct IntegerDraw {
  std::uint64_t key = 0;
  int ranks = 1;
  int micro_batches = 1;  ///< 1 or 2
  int first_rank = 0;     ///< whose turn element 0 is
  int size_bits = 0;      ///< sizes are 1 to 2^size_bits
  int unit_exponent = 0;  ///< of the largest power of two that an element has; 16 of them, by 1/4
  float smallest = 0;     ///< the power of two of 1 element in 64
};

/// One of the two contributions to an element.
struct DrawnInteger {
  int rank = 0;
  int micro_batch = 0;
  int value = 0;  ///< not 0; its size is 2^size_bits at most
};

/// What is drawn for an element.
struct DrawnIntegers {
  std::array<DrawnInteger, 2> both = {};
  float unit = 1;  ///< the power of two by which the integers are multiplied
};

DrawnIntegers drawn_integers(const IntegerDraw& draw, std::int64_t element);

constexpr int kEach = -1;

/// out[element - begin], for the elements of [begin, end): the sum of what is drawn for `rank`,
/// times the number of ranks, in `micro_batch` or kEach; of kEach rank, the sum as it is. Times the
/// element's power of two.
void sum_drawn_integers(const IntegerDraw& draw, std::int64_t begin, std::int64_t end, int rank,
                        int micro_batch, float* out);

}  // namespace ddprun::kernels
