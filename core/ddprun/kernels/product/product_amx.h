// Products of bfloat16 matrices by Intel's AMX tiles (Xeon from Sapphire Rapids on).
#pragma once

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// product() on the calling thread. Call it only where has(ProductPath::amx). Operands are packed
/// into tiles block by block, in memory that the thread keeps (at most some 5 MB). Sums are
/// float32. Denormal operands count as zero, as AMX has it. The order of additions depends on the
/// sizes alone, and so do the bits.
template <typename T>
void amx_product(const Matrix<const bf16>& a, const Matrix<const bf16>& b, bool add,
                 const Matrix<T>& c);

}  // namespace ddprun::kernels
