// Layouts of the operands of tile products.
#pragma once

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

/// out = in transposed, with zeros in the columns beyond it. E: float or Pair.
template <class E>
void transpose(const Matrix<const E>& in, const Matrix<E>& out);

/// out ((rows + 1) / 2, columns): the pairs of rows 0 and 1, 2 and 3 and so on of in (rows,
/// columns). The row that the last one may lack counts as 0.
void pair_rows(const Matrix<const bf16>& in, Pair* out);

}  // namespace ddprun::kernels
