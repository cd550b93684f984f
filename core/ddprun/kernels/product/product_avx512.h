// Products of matrices by AVX-512: of bfloat16 by its instruction for them where that is fast (AMD
// from Zen 4 on), else widened, and of float32 where MKL takes a lesser kernel than the CPU has.
#pragma once

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// product() on the calling thread. Call it only where has(ProductPath::avx512_bf16). Operands are
/// packed into panels block by block, in memory that the thread keeps (at most some 4 MB). Sums are
/// float32; of float32 operands a chain of sums takes in at most 320 products. P is what operands
/// of E are packed as and multiplied: E, or float. Denormal bfloat16 operands that are not widened
/// count as zero, as VDPBF16PS has it. The order of additions depends on the sizes alone, and so do
/// the bits.
template <typename P, typename E, typename T>
void avx512_product(const Matrix<const E>& a, const Matrix<const E>& b, bool add,
                    const Matrix<T>& c);

}  // namespace ddprun::kernels
