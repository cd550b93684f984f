// The sizes of a call of attention, and the memory that it takes.
#pragma once

#include <cstdint>

namespace ddprun {

/// The sizes of one call of forward(). If causal, query i sees the keys 0 to i; else all.
struct AttentionSizes {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, head_dim = 1;
  bool causal = true;
  std::int64_t element_bytes = 4;  ///< of q, k, v and the output
  bool documents = false;          ///< AttentionOptions::first_keys is given
};

/// Bytes of tensors that one call and its backward allocate, by formula. Not among them: q, k, v,
/// the output, their gradients, and scratch memory that does not grow with the lengths. They are
/// not integers, since a formula also holds for sizes that no machine has.
struct AttentionMemory {
  double forward = 0;   ///< at the peak of forward(), of what is kept as well
  double saved = 0;     ///< kept from forward() to backward
  double backward = 0;  ///< at the peak of backward, beside what is kept
};

}  // namespace ddprun
