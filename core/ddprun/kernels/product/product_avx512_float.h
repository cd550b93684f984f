// Products of float32 matrices by AVX-512, for CPUs on which MKL takes a lesser kernel than they
// have.
#pragma once

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

/// product() on the calling thread. Call it only where has_avx512_bf16(). Operands are packed into
/// panels block by block, in memory that the thread keeps (at most some 4 MB). A chain of sums
/// takes in at most 256 products. The order of additions depends on the sizes alone, and so do the
/// bits.
void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c);

}  // namespace ddprun::kernels
