// Softmax over rows of attention scores, causal or not, and its gradient.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Which scores count. Row r of a tile is query first_row + r. If causal, it sees the keys up to
/// itself, else all `columns`. A key that it does not see has probability 0.
struct Tile {
  std::int64_t rows;
  std::int64_t columns;  ///< also the stride of every matrix of the tile
  std::int64_t first_row;
  bool causal;
  float scale;  ///< of the scores
};

/// probabilities = softmax(scale * scores) by rows; log_sum_exp (rows,) is kept for the backward.
/// scores is overwritten; probabilities may be scores if the types agree.
void softmax(const Tile& tile, float* scores, float* probabilities, float* log_sum_exp);
void softmax(const Tile& tile, float* scores, bf16* probabilities, float* log_sum_exp);

/// Takes the same scores as the forward: probabilities = exp(scale * scores - log_sum_exp), and
/// dscores = probabilities * (dprobabilities - delta) * scale. The caller gives delta (rows,) = sum
/// over the row of probabilities * dprobabilities, however computed (Dao 2023, section 3.1.2). If
/// the types agree, probabilities may be scores, and dscores may be dprobabilities.
void softmax_backward(const Tile& tile, const float* scores, const float* dprobabilities,
                      const float* log_sum_exp, const float* delta, float* probabilities,
                      float* dscores);
void softmax_backward(const Tile& tile, const float* scores, const float* dprobabilities,
                      const float* log_sum_exp, const float* delta, bf16* probabilities,
                      bf16* dscores);

/// out[r] = sum over c < width of a[r * stride_a + c] * b[r * stride_b + c].
void row_dots(std::int64_t rows, std::int64_t width, const float* a, std::int64_t stride_a,
              const float* b, std::int64_t stride_b, float* out);
void row_dots(std::int64_t rows, std::int64_t width, const bf16* a, std::int64_t stride_a,
              const bf16* b, std::int64_t stride_b, float* out);

}  // namespace ddprun::kernels
