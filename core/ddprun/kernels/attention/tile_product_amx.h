// Products of pairs by AMX tiles (Xeon from Sapphire Rapids on).
#pragma once

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

/// tile_product() on AMX tiles. Call it only where has(ProductPath::amx). Denormal operands count
/// as zero, as AMX has it.
void amx_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                      const Matrix<float>& c, Ahead& ahead);

}  // namespace ddprun::kernels
