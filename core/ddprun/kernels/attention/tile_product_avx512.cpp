// VDPBF16PS over blocks of 12 x 32 results, which take 24 of the 32 registers.
#include "ddprun/kernels/attention/tile_product_avx512.h"

#include <c10/util/Exception.h>

#if defined(__x86_64__)
#define DDPRUN_HAS_AVX512_CODE 1
#include "ddprun/kernels/product/pairs_avx512.h"
#endif

namespace ddprun::kernels {

#ifdef DDPRUN_HAS_AVX512_CODE

namespace {

constexpr int kRows = 12;
constexpr int kWidth = 16;  // lanes of a vector

/// One block of c: (rows, vectors * kWidth).
template <int rows, int vectors>
DDPRUN_AVX512 void multiply_block(std::int64_t steps, const Left<Pair>& left,
                                  const Right<Pair>& right, bool add, Matrix<float> c) {
  const std::int64_t row_stride = left.row_stride;
  __m512 sums[rows][vectors];
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[row][v] = _mm512_setzero_ps();
  }
  const Pair* a = left.data;
  const Pair* b = right.data;
  for (std::int64_t step = 0; step < steps; ++step, a += left.step_stride, b += right.stride) {
    __m512bh lanes[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) lanes[v] = (__m512bh)_mm512_loadu_si512(b + v * kWidth);
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      const __m512bh pair = avx512::broadcast_pair(&a[row * row_stride].first);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sums[row][v] = _mm512_dpbf16_ps(sums[row][v], pair, lanes[v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const to = c.data + row * c.stride + v * kWidth;
      const __m512 sum = sums[row][v];
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum) : sum);
    }
  }
}

/// multiply_block() for a number of rows that is known at run time: 1 to `most`.
template <int most, int vectors>
void multiply_rows(std::int64_t rows, std::int64_t steps, const Left<Pair>& left,
                   const Right<Pair>& right, bool add, Matrix<float> c) {
  if constexpr (most > 1) {
    if (rows < most) return multiply_rows<most - 1, vectors>(rows, steps, left, right, add, c);
  }
  multiply_block<most, vectors>(steps, left, right, add, c);
}

template <int vectors>
void multiply_lanes(std::int64_t rows, std::int64_t steps, const Left<Pair>& left,
                    const Right<Pair>& right, bool add, Matrix<float> c) {
  for (std::int64_t row = 0; row < rows; row += kRows) {
    multiply_rows<kRows, vectors>(rows - row, steps, left.from(row), right, add, c.from(row));
  }
}

}  // namespace

void avx512_tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                         const Left<Pair>& left, const Right<Pair>& right, bool add,
                         Matrix<float> c) {
  std::int64_t lane = 0;
  for (; lane + 2 * kWidth <= lanes; lane += 2 * kWidth) {
    multiply_lanes<2>(rows, steps, left, right.from_lane(lane), add, c.from(0, lane));
  }
  if (lane < lanes) {
    multiply_lanes<1>(rows, steps, left, right.from_lane(lane), add, c.from(0, lane));
  }
}

#else

void avx512_tile_product(std::int64_t, std::int64_t, std::int64_t, const Left<Pair>&,
                         const Right<Pair>&, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "avx512_tile_product() without has_avx512_bf16()");
}

#endif

}  // namespace ddprun::kernels
