// Products of matrices by instructions that not every CPU has.
//
// Family: product_amx.cpp product_avx512.cpp
#pragma once

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// product() of bfloat16 on the calling thread, by Intel's AMX tiles (Xeon from Sapphire Rapids
/// on). Call it only where has(ProductPath::amx). Operands are packed into tiles block by block, in
/// memory that the thread keeps (at most some 5 MB). Sums are float32. Denormal operands count as
/// zero, as AMX has it. The order of additions depends on the sizes alone, and so do the bits.
template <typename T>
void amx_product(const Matrix<const bf16>& a, const Matrix<const bf16>& b, bool add,
                 const Matrix<T>& c);

/// product() on the calling thread by AVX-512: of bfloat16 by its instruction for them where that
/// is fast (AMD from Zen 4 on), else widened, and of float32 where MKL takes a lesser kernel than
/// the CPU has. Call it only where has(ProductPath::avx512_bf16). Operands are packed into panels
/// block by block, in memory that the thread keeps (at most some 4 MB). Sums are float32; of
/// float32 operands a chain of sums takes in at most 320 products. P is what operands of E are
/// packed as and multiplied: E, or float. Denormal bfloat16 operands that are not widened count as
/// zero, as VDPBF16PS has it. The order of additions depends on the sizes alone, and so do the
/// bits.
template <typename P, typename E, typename T>
void avx512_product(const Matrix<const E>& a, const Matrix<const E>& b, bool add,
                    const Matrix<T>& c);

}  // namespace ddprun::kernels
