// AMX products of pairs: blocks of 32 x 32 results in four tile registers.
#include "ddprun/kernels/attention/tile_product.h"

#include <immintrin.h>

#include <algorithm>

#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/product/tiles_amx.h"

namespace ddprun::kernels {

namespace {

using namespace amx;

constexpr std::int64_t kDepth = 16;      // steps of pairs in a tile
constexpr std::int64_t kMost = 8;        // tiles' depths in a block of k
constexpr std::int64_t kStepsALine = 4;  // that is asked for
constexpr std::int64_t kPairs = 1024;    // of the two tiles of a panel's depth, as bf16

/// Packs at most 32 rows and kMost * kDepth steps as pack_rows() does: steps beyond the last are 0.
void pack_left(const Matrix<const Pair>& left, bf16* out) {
  if (!left.column_major) {
    const auto* const data = reinterpret_cast<const bf16*>(left.data);
    return pack_rows({data, left.rows, 2 * left.columns, 2 * left.stride}, /*transposed=*/false,
                     out);
  }
  for (std::int64_t step = 0; step < left.columns; step += kDepth, out += kPairs) {
    for (std::int64_t row = 0; row < left.rows; row += kTile) {
      transpose(left.block(row, step, kTile, kDepth).transposed(),
                Matrix<Pair>{reinterpret_cast<Pair*>(out + row * 32), kTile, kDepth, kDepth});
    }
  }
}

/// sums (32, 32) = a packed panel times right (steps, 16 or 32 lanes).
DDPRUN_AMX void multiply_panel(const bf16* left, const Matrix<const Pair>& right, float* sums) {
  alignas(64) Pair padded[kDepth * kPanel];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const Pair* b = right.data;
  std::int64_t stride = right.stride;
  for (std::int64_t step = 0; step < right.rows; step += kDepth, left += kPairs) {
    if (right.rows - step < kDepth) {  // a copy, with zeros for what is missing
      std::fill_n(padded, kDepth * kPanel, Pair{});
      for (std::int64_t i = 0; i < right.rows - step; ++i) {
        std::copy_n(b + i * stride, right.columns, padded + i * kPanel);
      }
      b = padded;
      stride = kPanel;
    }
    asm volatile("" : : : "memory");  // GCC 12 does not know that tile loads read memory
    _tile_loadd(4, left, 64);
    _tile_loadd(5, left + kPairs / 2, 64);
    _tile_loadd(6, b, stride * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if (right.columns > kTile) {
      _tile_loadd(7, b + kTile, stride * 4);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    b += kDepth * stride;
  }
  _tile_stored(0, sums, kPanel * 4);
  _tile_stored(1, sums + kTile, kPanel * 4);
  _tile_stored(2, sums + kTile * kPanel, kPanel * 4);
  _tile_stored(3, sums + kTile * kPanel + kTile, kPanel * 4);
}

/// Writes sums (32, 32) to c, which is smaller or as large, added if `add`.
DDPRUN_AMX void write_sums(const float* sums, bool add, const Matrix<float>& c) {
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t lane = 0; lane < c.columns; lane += kTile) {
      float* const to = c.data + row * c.stride + lane;
      const __m512 sum = _mm512_load_ps(sums + row * kPanel + lane);
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum) : sum);
    }
  }
}

/// The product of at most 32 rows and kMost * kDepth steps.
DDPRUN_AMX void multiply_rows(const Matrix<const Pair>& left, const Matrix<const Pair>& right,
                              bool add, const Matrix<float>& c, Ahead& ahead) {
  alignas(64) bf16 packed[kMost * kPairs];
  alignas(64) float sums[kPanel * kPanel];
  pack_left(left, packed);
  configure_tiles();
  for (std::int64_t lane = 0; lane < right.columns; lane += kPanel) {
    ahead.ask(left.columns / kStepsALine);
    const std::int64_t width = std::min(kPanel, right.columns - lane);
    multiply_panel(packed, {right.data + lane, right.rows, width, right.stride}, sums);
    write_sums(sums, add, {c.data + lane, c.rows, width, c.stride});
  }
  _tile_release();
}

}  // namespace

void amx_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                      const Matrix<float>& c, Ahead& ahead) {
  constexpr std::int64_t kSteps = kMost * kDepth;
  for (std::int64_t step = 0; step < left.columns; step += kSteps) {
    for (std::int64_t row = 0; row < left.rows; row += kPanel) {
      multiply_rows(left.block(row, step, kPanel, kSteps),
                    right.block(step, 0, kSteps, right.columns), add || step > 0,
                    c.block(row, 0, kPanel, c.columns), ahead);
    }
  }
}

}  // namespace ddprun::kernels
