// What the products by AMX share: the tiles' sizes, and packing.
#include "ddprun/kernels/product/tiles_amx.h"

#include <immintrin.h>

#include "ddprun/kernels/product/blocked_product.h"
#include "ddprun/kernels/product/vectors_avx512.h"

namespace ddprun::kernels::amx {

using namespace avx512;

DDPRUN_AMX void configure_tiles() {
  struct {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const all_whole;
  static_assert(sizeof(all_whole) == 64);
  // This is not _tile_loadconfig, because GCC 12 believes that it reads eight bytes and may drop
  // what is written to the others. The clobber makes sure that packed data is in memory before
  // tiles load it.
  asm volatile("ldtilecfg %0" : : "m"(all_whole) : "memory");
}

DDPRUN_AMX void pack_rows(const Matrix<const bf16>& source, bool transposed, bf16* out) {
  const std::int64_t steps = round_up(source.columns, kStep) / kStep;
  alignas(64) bf16 padded[kTile * 32];
  for (std::int64_t row = 0; row < source.rows; row += kTile) {
    bf16* to = out + row / kPanel * steps * kStepSize + row % kPanel * 32;
    for (std::int64_t column = 0; column < source.columns; column += kStep, to += kStepSize) {
      const auto in = whole_rows<bf16>(source, row, column, kTile, padded);
      for (int i = 0; i < kTile; ++i) __builtin_prefetch(in.data + (i + kTile) * in.stride);
      if (transposed) {
        transpose_words<kTile>(in, to, 32);
      } else {
        for (int i = 0; i < kTile; ++i) {
          _mm512_store_si512(to + i * 32, _mm512_loadu_si512(in.data + i * in.stride));
        }
      }
    }
  }
}

DDPRUN_AMX void pack_columns(const Matrix<const bf16>& source, bool transposed, bf16* out) {
  const std::int64_t steps = round_up(source.rows, kStep) / kStep;
  alignas(64) bf16 padded[kStep * 32];
  alignas(64) bf16 pairs[2 * kTile * 32];
  for (std::int64_t row = 0; row < source.rows; row += kStep) {
    for (std::int64_t column = 0; column < source.columns; column += kPanel) {
      const auto in = whole_rows<bf16>(source, row, column, kStep, padded);
      for (int i = 0; i < kStep; ++i) __builtin_prefetch(in.data + i * in.stride + 4 * kPanel);
      bf16* const tiles = out + (column / kPanel * steps + row / kStep) * kStepSize;
      bf16* const to = transposed ? pairs : tiles;
      for (int i = 0; i < kTile; ++i) {
        const WordsOfRow row_pairs =
            pair_up(in.data + 2 * i * in.stride, in.data + (2 * i + 1) * in.stride);
        write_words<kTile>(to + i * 32, row_pairs.low);
        write_words<kTile>(to + 512 + i * 32, row_pairs.high);
      }
      if (transposed) {
        for (const int tile : {0, 512}) {
          transpose_words<kTile>(Rows<bf16>{pairs + tile, 32}, tiles + tile, 32);
        }
      }
    }
  }
}

}  // namespace ddprun::kernels::amx
