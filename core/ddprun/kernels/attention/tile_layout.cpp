// Transposition by blocks of 4 x 4, and pairs of rows side by side.
#include "ddprun/kernels/attention/tile_layout.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/attention/tile_layout.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// Columns `first` to `columns` of in, one value at a time.
template <class E>
HWY_INLINE void transpose_columns(std::int64_t rows, std::int64_t first, std::int64_t columns,
                                  Matrix<const E> in, std::int64_t lanes, E* out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = first; column < columns; ++column) {
      out[column * lanes + row] = in.data[row * in.stride + column];
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
template <class E>
HWY_INLINE void transpose_rows(std::int64_t rows, std::int64_t columns, Matrix<const E> in,
                               std::int64_t lanes, E* out) {
  transpose_columns(rows, 0, columns, in, lanes, out);
}
#else
constexpr hn::FixedTag<std::uint32_t, 4> kFour;
constexpr hn::FixedTag<std::uint64_t, 2> kTwo;

/// out (4, 4) = in (4, 4) transposed.
HWY_INLINE void transpose_block(const std::uint32_t* in, std::int64_t stride, std::uint32_t* out,
                                std::int64_t lanes) {
  const auto row = [&](int i) HWY_ATTR { return hn::LoadU(kFour, in + i * stride); };
  const auto low = [](auto a, auto b)
                       HWY_ATTR { return hn::BitCast(kTwo, hn::InterleaveLower(kFour, a, b)); };
  const auto high = [](auto a, auto b)
                        HWY_ATTR { return hn::BitCast(kTwo, hn::InterleaveUpper(kFour, a, b)); };
  const auto write = [&](auto column, int i) HWY_ATTR {
    hn::StoreU(hn::BitCast(kFour, column), kFour, out + i * lanes);
  };
  const auto low_01 = low(row(0), row(1));
  const auto low_23 = low(row(2), row(3));
  const auto high_01 = high(row(0), row(1));
  const auto high_23 = high(row(2), row(3));
  write(hn::InterleaveLower(kTwo, low_01, low_23), 0);
  write(hn::InterleaveUpper(kTwo, low_01, low_23), 1);
  write(hn::InterleaveLower(kTwo, high_01, high_23), 2);
  write(hn::InterleaveUpper(kTwo, high_01, high_23), 3);
}

template <class E>
HWY_INLINE void transpose_rows(std::int64_t rows, std::int64_t columns, Matrix<const E> in,
                               std::int64_t lanes, E* out) {
  const std::int64_t whole_rows = rows / 4 * 4;
  const std::int64_t whole_columns = columns / 4 * 4;
  for (std::int64_t row = 0; row < whole_rows; row += 4) {
    for (std::int64_t column = 0; column < whole_columns; column += 4) {
      transpose_block(reinterpret_cast<const std::uint32_t*>(in.from(row, column).data), in.stride,
                      reinterpret_cast<std::uint32_t*>(out + column * lanes + row), lanes);
    }
  }
  transpose_columns(rows, whole_columns, columns, in, lanes, out);
  transpose_columns(rows - whole_rows, 0, whole_columns, in.from(whole_rows), lanes,
                    out + whole_rows);
}
#endif

template <class E>
HWY_INLINE void transpose_tile(std::int64_t rows, std::int64_t columns, Matrix<const E> in,
                               std::int64_t lanes, E* out) {
  for (std::int64_t column = 0; rows < lanes && column < columns; ++column) {
    std::fill(out + column * lanes + rows, out + (column + 1) * lanes, E{});
  }
  transpose_rows(rows, columns, in, lanes, out);
}

template <class T>
HWY_INLINE void pairs_of_rows(std::int64_t rows, std::int64_t columns, Matrix<const T> in,
                              Pair* out) {
  for (std::int64_t row = 0; row < rows; row += 2, out += columns) {
    const T* const first = in.from(row).data;
    const T* const second = in.from(row + 1).data;
    const bool alone = row + 1 == rows;
    auto* const to = reinterpret_cast<std::uint32_t*>(out);
    for_vectors(0, columns, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const auto low = bf16_bits(load(first + i, lanes));
      const auto high = alone ? hn::Zero(kBits) : bf16_bits(load(second + i, lanes));
      store_lanes(kBits, hn::Or(low, hn::ShiftLeft<16>(high)), to + i, lanes);
    });
  }
}

void transpose_floats(std::int64_t rows, std::int64_t columns, Matrix<const float> in,
                      std::int64_t lanes, float* out) {
  transpose_tile(rows, columns, in, lanes, out);
}
void transpose_pairs(std::int64_t rows, std::int64_t columns, Matrix<const Pair> in,
                     std::int64_t lanes, Pair* out) {
  transpose_tile(rows, columns, in, lanes, out);
}
void pair_float_rows(std::int64_t rows, std::int64_t columns, Matrix<const float> in, Pair* out) {
  pairs_of_rows(rows, columns, in, out);
}
void pair_bf16_rows(std::int64_t rows, std::int64_t columns, Matrix<const bf16> in, Pair* out) {
  pairs_of_rows(rows, columns, in, out);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(transpose_floats);
HWY_EXPORT(transpose_pairs);
HWY_EXPORT(pair_float_rows);
HWY_EXPORT(pair_bf16_rows);

void transpose(std::int64_t rows, std::int64_t columns, Matrix<const float> in, std::int64_t lanes,
               float* out) {
  HWY_DYNAMIC_DISPATCH(transpose_floats)(rows, columns, in, lanes, out);
}
void transpose(std::int64_t rows, std::int64_t columns, Matrix<const Pair> in, std::int64_t lanes,
               Pair* out) {
  HWY_DYNAMIC_DISPATCH(transpose_pairs)(rows, columns, in, lanes, out);
}
void pair_rows(std::int64_t rows, std::int64_t columns, Matrix<const float> in, Pair* out) {
  HWY_DYNAMIC_DISPATCH(pair_float_rows)(rows, columns, in, out);
}
void pair_rows(std::int64_t rows, std::int64_t columns, Matrix<const bf16> in, Pair* out) {
  HWY_DYNAMIC_DISPATCH(pair_bf16_rows)(rows, columns, in, out);
}

}  // namespace ddprun::kernels
#endif
