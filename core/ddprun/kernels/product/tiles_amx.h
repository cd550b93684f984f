// What the products by AMX share: tiles, and operands packed into them.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

// Only functions with this attribute are compiled for AMX; has(ProductPath::amx) asks the CPU
// before one runs.
#define DDPRUN_AMX \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace ddprun::kernels::amx {

// A tile is 16 rows of 64 bytes. A tile of the left operand holds 16 rows of 32 columns. A tile of
// the right operand holds 16 pairs of rows, each pair as 16 columns of two values. TDPBF16PS
// multiplies a left tile with a right tile and adds to a tile of 16 x 16 float32 (Intel SDM, volume
// 2).
constexpr std::int64_t kTile = 16;
constexpr std::int64_t kStep = 32;           // of k, in one tile
constexpr std::int64_t kPanel = 2 * kTile;   // rows of a or columns of b that are packed together
constexpr std::int64_t kStepSize = 2 * 512;  // elements of a panel's step: two tiles

/// Makes the eight tile registers whole tiles of this thread, of zeros. _tile_release() ends that.
void configure_tiles();

/// Packs panels of 32 rows each, with k along the rows: out[panel][step][two tiles]. The left
/// operand takes the tiles as they are. For the right operand, `transposed` transposes each tile by
/// pairs. out is 64-byte aligned.
void pack_rows(const Matrix<const bf16>& source, bool transposed, bf16* out);

/// Packs panels of 32 columns each, with k along the columns. The values of each pair of rows lie
/// side by side, as the right operand takes them. For the left operand, `transposed` transposes
/// each tile by pairs.
void pack_columns(const Matrix<const bf16>& source, bool transposed, bf16* out);

}  // namespace ddprun::kernels::amx
