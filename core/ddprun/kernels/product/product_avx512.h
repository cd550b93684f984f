// Products of bfloat16 matrices by AVX-512's instructions for them (AMD from Zen 4, Intel from
// Cooper Lake on).
#pragma once

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

/// Whether this CPU has them and the kernel saves their registers.
bool has_avx512_bf16();

/// product() on the calling thread. Call it only where has_avx512_bf16(). Operands are packed into
/// panels block by block, in memory that the thread keeps (at most some 4 MB). Sums are float32.
/// Denormal operands count as zero, as VDPBF16PS has it. The order of additions depends on the
/// sizes alone, and so do the bits.
void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);

/// c = op(a) op(b), rounded once.
void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c);

}  // namespace ddprun::kernels
