// Products of pairs by AMX tiles (Xeon from Sapphire Rapids on).
#pragma once

#include "ddprun/kernels/attention/tile_product.h"
#include "ddprun/kernels/product/product_amx.h"

namespace ddprun::kernels {

/// tile_product() on AMX tiles. Call it only where has_amx(). Denormal operands count as zero, as
/// AMX has it.
void amx_tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                      const Left<Pair>& left, const Right<Pair>& right, bool add, Matrix<float> c);

}  // namespace ddprun::kernels
