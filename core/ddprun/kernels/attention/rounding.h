// Scores rounded to bfloat16, as products of pairs take them.
#pragma once

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

// To nearest even, by AVX-512's own instruction where the CPU has it. That takes denormal numbers
// for zero, as the product that follows does. Rows are a multiple of kLaneUnit wide.

/// to (rows, columns) = scores, which lie one row after another.
void round_scores(const Matrix<const float>& scores, bf16* to);

/// As pair_rows().
void pair_scores(const Matrix<const float>& scores, Pair* out);

}  // namespace ddprun::kernels
