// Products of bfloat16 matrices by Intel's AMX tiles (Xeon from Sapphire Rapids on).
#pragma once

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

/// Whether this CPU has AMX for bfloat16 and the kernel lets this process use it.
bool has_amx();

/// product() on the calling thread. Call it only where has_amx(). Operands are packed into tiles
/// block by block, in memory that the thread keeps (at most some 5 MB). Sums are float32. Denormal
/// operands count as zero, as AMX has it. The order of additions depends on the sizes alone, and so
/// do the bits.
void amx_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);

/// c = op(a) op(b), rounded once.
void amx_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c);

}  // namespace ddprun::kernels
