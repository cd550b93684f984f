// Products of pairs by AVX-512's bfloat16 instructions (AMD from Zen 4, Intel from Cooper Lake on).
#pragma once

#include "ddprun/kernels/attention/tile_product.h"

namespace ddprun::kernels {

/// tile_product() on vectors of 16 pairs. Call it only where has_avx512_bf16(). Denormal operands
/// count as zero, as the instruction has it.
void avx512_tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                         const Left<Pair>& left, const Right<Pair>& right, bool add,
                         Matrix<float> c);

}  // namespace ddprun::kernels
