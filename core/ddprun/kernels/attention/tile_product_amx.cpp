// AMX products of pairs: blocks of 32 x 32 results in four tile registers.
#include "ddprun/kernels/attention/tile_product_amx.h"

#include <c10/util/Exception.h>

#if defined(__x86_64__) && defined(__linux__)
#define DDPRUN_HAS_AMX_CODE 1
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/product/tiles_amx.h"
#endif

namespace ddprun::kernels {

#ifdef DDPRUN_HAS_AMX_CODE

namespace {

using namespace amx;

constexpr std::int64_t kDepth = 16;    // steps of pairs in a tile
constexpr std::int64_t kMost = 8;      // tiles' depths in a block of k
constexpr std::int64_t kPairs = 1024;  // of the two tiles of a panel's depth, as bf16

/// Packs at most 32 rows and kMost * kDepth steps as pack_rows() does: steps beyond the last are 0.
void pack_left(std::int64_t rows, std::int64_t steps, const Left<Pair>& left, bf16* out) {
  if (left.step_stride == 1) {
    const auto* const data = reinterpret_cast<const bf16*>(left.data);
    return pack_rows({data, 2 * left.row_stride, rows, 2 * steps}, /*transposed=*/false, out);
  }
  for (std::int64_t step = 0; step < steps; step += kDepth, out += kPairs) {
    for (std::int64_t row = 0; row < rows; row += kTile) {
      const Matrix<const Pair> in = {left.from(row).data + step * left.step_stride,
                                     left.step_stride};
      transpose(std::min(kDepth, steps - step), std::min(kTile, rows - row), in, kDepth,
                reinterpret_cast<Pair*>(out + row * 32));
    }
  }
}

/// At most kDepth steps of `lanes` lanes. If there are fewer, it is a copy in `padded`, with zeros
/// for what is missing; else the pairs where they lie.
Right<Pair> whole_steps(std::int64_t steps, std::int64_t lanes, const Right<Pair>& right,
                        Pair* padded) {
  if (steps >= kDepth) return right;
  std::fill_n(padded, kDepth * kPanel, Pair{});
  for (std::int64_t step = 0; step < steps; ++step) {
    std::copy_n(right.data + step * right.stride, lanes, padded + step * kPanel);
  }
  return {padded, kPanel};
}

/// sums (32, 32) = a packed panel times `lanes` lanes, 16 or 32.
DDPRUN_AMX void multiply_panel(const bf16* left, std::int64_t steps, std::int64_t lanes,
                               Right<Pair> right, float* sums) {
  alignas(64) Pair padded[kDepth * kPanel];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t step = 0; step < steps; step += kDepth, left += kPairs) {
    const Right<Pair> b = whole_steps(steps - step, lanes, right, padded);
    asm volatile("" : : : "memory");  // GCC 12 does not know that tile loads read memory
    _tile_loadd(4, left, 64);
    _tile_loadd(5, left + kPairs / 2, 64);
    _tile_loadd(6, b.data, b.stride * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if (lanes > kTile) {
      _tile_loadd(7, b.data + kTile, b.stride * 4);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    right.data += kDepth * right.stride;
  }
  _tile_stored(0, sums, kPanel * 4);
  _tile_stored(1, sums + kTile, kPanel * 4);
  _tile_stored(2, sums + kTile * kPanel, kPanel * 4);
  _tile_stored(3, sums + kTile * kPanel + kTile, kPanel * 4);
}

/// Writes sums (32, 32) to (rows, lanes) of c, added if `add`.
DDPRUN_AMX void write_sums(const float* sums, std::int64_t rows, std::int64_t lanes, bool add,
                           Matrix<float> c) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t lane = 0; lane < lanes; lane += kTile) {
      float* const to = c.from(row, lane).data;
      const __m512 sum = _mm512_load_ps(sums + row * kPanel + lane);
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum) : sum);
    }
  }
}

/// The product of at most 32 rows and kMost * kDepth steps.
DDPRUN_AMX void multiply_rows(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                              const Left<Pair>& left, const Right<Pair>& right, bool add,
                              Matrix<float> c) {
  alignas(64) bf16 packed[kMost * kPairs];
  alignas(64) float sums[kPanel * kPanel];
  pack_left(rows, steps, left, packed);
  configure_tiles();
  for (std::int64_t lane = 0; lane < lanes; lane += kPanel) {
    const std::int64_t width = std::min(kPanel, lanes - lane);
    multiply_panel(packed, steps, width, right.from_lane(lane), sums);
    write_sums(sums, rows, width, add, c.from(0, lane));
  }
  _tile_release();
}

}  // namespace

void amx_tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                      const Left<Pair>& left, const Right<Pair>& right, bool add, Matrix<float> c) {
  for (std::int64_t step = 0; step < steps; step += kMost * kDepth) {
    for (std::int64_t row = 0; row < rows; row += kPanel) {
      multiply_rows(std::min(kPanel, rows - row), lanes, std::min(kMost * kDepth, steps - step),
                    left.from(row).from_step(step), right.from_step(step), add || step > 0,
                    c.from(row));
    }
  }
}

#else

void amx_tile_product(std::int64_t, std::int64_t, std::int64_t, const Left<Pair>&,
                      const Right<Pair>&, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "amx_tile_product() without has_amx()");
}

#endif

}  // namespace ddprun::kernels
