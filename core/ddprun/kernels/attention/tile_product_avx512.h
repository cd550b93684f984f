// Products of pairs by AVX-512's bfloat16 instructions (AMD from Zen 4, Intel from Cooper Lake on).
#pragma once

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

/// tile_product() on vectors of 16 pairs. Call it only where has(ProductPath::avx512_bf16).
/// Denormal operands count as zero, as the instruction has it.
void avx512_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                         const Matrix<float>& c, Ahead& ahead);

}  // namespace ddprun::kernels
