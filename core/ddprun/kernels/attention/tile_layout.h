// Layouts of the operands of tile products.
#pragma once

#include <cstdint>

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

/// out (columns, lanes) = in (rows, columns) transposed. Lanes from `rows` on are 0.
void transpose(std::int64_t rows, std::int64_t columns, Matrix<const float> in, std::int64_t lanes,
               float* out);
void transpose(std::int64_t rows, std::int64_t columns, Matrix<const Pair> in, std::int64_t lanes,
               Pair* out);

/// out ((rows + 1) / 2, columns): the pairs of rows 0 and 1, 2 and 3 and so on of in (rows,
/// columns), rounded to bfloat16. The row that the last one may lack counts as 0.
void pair_rows(std::int64_t rows, std::int64_t columns, Matrix<const float> in, Pair* out);
void pair_rows(std::int64_t rows, std::int64_t columns, Matrix<const bf16> in, Pair* out);

}  // namespace ddprun::kernels
