// What the products by AMX share: the tiles' sizes, and packing.
#if defined(__x86_64__) && defined(__linux__)

#include "ddprun/kernels/amx_tiles.h"

#include <immintrin.h>

namespace ddprun::kernels::amx {

namespace {

/// `rows` rows of 32 values each, from (row, column) on. At the matrix's end it is a copy in
/// `padded`, with zeros for what is missing; else the values where they lie.
DDPRUN_AMX inline Matrix<const bf16> whole_rows(const Source& source, std::int64_t row,
                                                std::int64_t column, std::int64_t rows,
                                                bf16* padded) {
  const bf16* const from = source.data + row * source.stride + column;
  const std::int64_t left = source.columns - column;
  if (row + rows <= source.rows && left >= 32) return {from, source.stride};
  const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  for (std::int64_t i = 0; i < rows; ++i) {
    const __mmask32 present = row + i < source.rows ? mask : 0;
    _mm512_store_si512(padded + i * 32,
                       _mm512_maskz_loadu_epi16(present, from + i * source.stride));
  }
  return {padded, 32};
}

DDPRUN_AMX inline __m128i load_quarter(const bf16* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// Four times 16 bytes, a fixed distance apart.
DDPRUN_AMX inline __m512i gather_quarters(const bf16* from, std::int64_t distance) {
  __m512i all = _mm512_castsi128_si512(load_quarter(from));
  all = _mm512_inserti32x4(all, load_quarter(from + distance), 1);
  all = _mm512_inserti32x4(all, load_quarter(from + 2 * distance), 2);
  return _mm512_inserti32x4(all, load_quarter(from + 3 * distance), 3);
}

/// out = 16 rows of 16 pairs of values, transposed by pairs.
DDPRUN_AMX inline void transpose_pairs(Matrix<const bf16> in, bf16* out) {
  for (int pair = 0; pair < kTile; pair += 4) {
    __m512i x[4];  // x[i]: four pairs each of rows i, i + 4, i + 8, i + 12
    for (int i = 0; i < 4; ++i) {
      x[i] = gather_quarters(in.data + i * in.stride + 2 * pair, 4 * in.stride);
    }
    const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]);
    const __m512i b = _mm512_unpackhi_epi32(x[0], x[1]);
    const __m512i c = _mm512_unpacklo_epi32(x[2], x[3]);
    const __m512i d = _mm512_unpackhi_epi32(x[2], x[3]);
    bf16* const to = out + pair * 32;
    _mm512_store_si512(to, _mm512_unpacklo_epi64(a, c));
    _mm512_store_si512(to + 32, _mm512_unpackhi_epi64(a, c));
    _mm512_store_si512(to + 64, _mm512_unpacklo_epi64(b, d));
    _mm512_store_si512(to + 96, _mm512_unpackhi_epi64(b, d));
  }
}

}  // namespace

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

DDPRUN_AMX void pack_rows(const Source& source, bool transposed, bf16* out) {
  const std::int64_t steps = round_up(source.columns, kStep) / kStep;
  alignas(64) bf16 padded[kTile * 32];
  for (std::int64_t row = 0; row < source.rows; row += kTile) {
    bf16* to = out + row / kPanel * steps * kStepSize + row % kPanel * 32;
    for (std::int64_t column = 0; column < source.columns; column += kStep, to += kStepSize) {
      const auto in = whole_rows(source, row, column, kTile, padded);
      for (int i = 0; i < kTile; ++i) __builtin_prefetch(in.data + (i + kTile) * in.stride);
      if (transposed) {
        transpose_pairs(in, to);
      } else {
        for (int i = 0; i < kTile; ++i) {
          _mm512_store_si512(to + i * 32, _mm512_loadu_si512(in.data + i * in.stride));
        }
      }
    }
  }
}

DDPRUN_AMX void pack_columns(const Source& source, bool transposed, bf16* out) {
  alignas(64) static constexpr std::uint16_t kPairs[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i low = _mm512_load_si512(kPairs[0]);
  const __m512i high = _mm512_load_si512(kPairs[1]);
  const std::int64_t steps = round_up(source.rows, kStep) / kStep;
  alignas(64) bf16 padded[kStep * 32];
  alignas(64) bf16 pairs[2 * kTile * 32];
  for (std::int64_t row = 0; row < source.rows; row += kStep) {
    for (std::int64_t column = 0; column < source.columns; column += kPanel) {
      const auto in = whole_rows(source, row, column, kStep, padded);
      for (int i = 0; i < kStep; ++i) __builtin_prefetch(in.data + i * in.stride + 4 * kPanel);
      bf16* const tiles = out + (column / kPanel * steps + row / kStep) * kStepSize;
      bf16* const to = transposed ? pairs : tiles;
      for (int i = 0; i < kTile; ++i) {
        const __m512i even = _mm512_loadu_si512(in.data + 2 * i * in.stride);
        const __m512i odd = _mm512_loadu_si512(in.data + (2 * i + 1) * in.stride);
        _mm512_store_si512(to + i * 32, _mm512_permutex2var_epi16(even, low, odd));
        _mm512_store_si512(to + 512 + i * 32, _mm512_permutex2var_epi16(even, high, odd));
      }
      if (transposed) {
        transpose_pairs({pairs, 32}, tiles);
        transpose_pairs({pairs + 512, 32}, tiles + 512);
      }
    }
  }
}

}  // namespace ddprun::kernels::amx

#endif
