// Cross entropy of a softmax, and its gradient, by rows.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Returns the sum over the rows, in double, of -log softmax(logits[row])[targets[row]]. Unless
/// dlogits is null, dlogits = (softmax - one-hot) * scale. It may be logits where the types agree.
/// logits, dlogits: (rows, vocab); targets: (rows), each in [0, vocab).
double cross_entropy(std::int64_t rows, std::int64_t vocab, const float* logits,
                     const std::int64_t* targets, float scale, float* dlogits);
double cross_entropy(std::int64_t rows, std::int64_t vocab, const float* logits,
                     const std::int64_t* targets, float scale, bf16* dlogits);
double cross_entropy(std::int64_t rows, std::int64_t vocab, const bf16* logits,
                     const std::int64_t* targets, float scale, bf16* dlogits);

}  // namespace ddprun::kernels
