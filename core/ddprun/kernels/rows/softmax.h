// The softmax of attention by tiles of scores, and its gradient.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

// Below, matrices of scores are (rows, lanes) float32, their rows `lanes` apart, and `lanes` is a
// multiple of 16.

/// A tile of scores with a key a row and a query a lane.
struct QueryLanes {
  std::int64_t rows, lanes;
  std::int64_t seen;  ///< keys that lane 0 sees. Lane q sees q more; `rows` or more: all of them.
  float scale;        ///< of the scores, positive
};

/// What is known of each lane's softmax after some tiles (Milakov & Gimelshein 2018).
struct RunningSoftmax {
  float* largest;  ///< (lanes,) of the scores; before the first tile far below all of them
  float* sum;      ///< (lanes,) of exp(scale * (score - largest)); 0 before the first tile
};

/// probabilities = exp(scale * (scores - largest)), or 0 where a lane does not see the key (or the
/// score is minus infinity), with the largest of this tile and all before it. `running` takes them
/// in. factor (lanes,) brings what was added up before to the new largest. Returns whether a factor
/// is not 1. The probabilities may begin where the scores do. If E is Pair, they are the pairs of
/// rows 0 and 1, 2 and 3 and so on, rounded; the row that the last one may lack counts as 0.
template <class E>
bool online_softmax(const QueryLanes& tile, float* scores, const RunningSoftmax& running,
                    float* factor, E* probabilities);

/// values (rows, lanes) *= factor (lanes,).
void scale_lanes(std::int64_t rows, std::int64_t lanes, const float* factor, float* values);

/// Ends a softmax: values (rows, lanes) /= sum, and log_sum_exp (lanes,) of the scaled scores.
void finish_softmax(std::int64_t rows, std::int64_t lanes, float scale,
                    const RunningSoftmax& running, float* values, float* log_sum_exp);

/// A tile of scores with a query a row and a key a lane.
struct KeyLanes {
  std::int64_t rows, lanes;
  std::int64_t keys;  ///< lanes from here on are no keys
  std::int64_t seen;  ///< keys that row 0 sees. Row q sees q more; `keys` or more: all of them.
  float scale;        ///< of the scores
};

/// What softmax_backward() writes, as online_softmax() writes probabilities. Each may begin where
/// what it takes the place of does.
template <class E>
struct ScoreGradients {
  E* probabilities;  ///< in the place of the scores
  E* dscores;        ///< in that of dprobabilities
  bf16* rows;        ///< (rows, lanes): dscores again, row by row, if E is Pair
};

/// probabilities = exp(scale * scores - log_sum_exp), and dscores = probabilities * (dprobabilities
/// - delta) * scale, both 0 where a row does not see the key. delta (rows,) is the sum over all
/// keys of probabilities * dprobabilities, however computed (Dao 2023, section 3.1.2).
template <class E>
void softmax_backward(const KeyLanes& tile, const float* log_sum_exp, const float* delta,
                      const float* scores, const float* dprobabilities,
                      const ScoreGradients<E>& out);

/// out[r] = the sum of a * b over row r. T: float or bf16.
template <class T>
void row_dots(const Matrix<const T>& a, const Matrix<const T>& b, float* out);

}  // namespace ddprun::kernels
