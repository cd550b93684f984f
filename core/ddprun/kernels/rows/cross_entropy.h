// Cross entropy of a softmax, and its gradient, by rows.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Returns the sum over the rows, in double, of -log softmax(logits[row])[targets[row]]. Unless
/// dlogits is null, dlogits = (softmax - one-hot) * scale. It may be logits where the types agree.
/// logits, dlogits: (rows, vocab); targets: (rows), each in [0, vocab), or
/// negative, for a row that does not count. L and G: float and float,
/// float and bf16, or bf16 and bf16.
template <class L, class G>
double cross_entropy(std::int64_t rows, std::int64_t vocab, const L* logits,
                     const std::int64_t* targets, float scale, G* dlogits);

}  // namespace ddprun::kernels
