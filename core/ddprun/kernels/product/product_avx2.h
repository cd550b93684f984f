// Products of bfloat16 by AVX2, for CPUs without instructions for it.
#pragma once

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

/// product() on the calling thread. Call it only where has(ProductPath::avx2). Operands are packed
/// into panels of float32 block by block, in memory that the thread keeps (at most some 3 MB);
/// bfloat16 is widened on the way. A chain of sums takes in at most 256 products. The order of
/// additions depends on the sizes alone, and so do the bits.
void avx2_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);
void avx2_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c);

}  // namespace ddprun::kernels
