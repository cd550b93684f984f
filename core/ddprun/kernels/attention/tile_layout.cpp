// Transposition by blocks, and pairs of rows side by side.
#include "ddprun/kernels/attention/tile_layout.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/attention/tile_layout.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// One value at a time.
template <class E>
HWY_INLINE void transpose_values(const Matrix<const E>& in, const Matrix<E>& out) {
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t column = 0; column < in.columns; ++column) {
      out.data[column * out.stride + row] = in.data[row * in.stride + column];
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
constexpr hn::RepartitionToWide<Bits> kTwice;

/// Columns 0 to 3 of rows 0, 4, 8 and so on, one behind another.
template <class D>
HWY_INLINE hn::Vec<D> every_fourth_row(D d, const std::uint32_t* in, std::int64_t stride) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, in);
  } else {
    constexpr hn::Half<D> kHalf;
    const auto rows = static_cast<std::int64_t>(hn::MaxLanes(kHalf));
    return hn::Combine(d, every_fourth_row(kHalf, in + rows * stride, stride),
                       every_fourth_row(kHalf, in, stride));
  }
}

/// out (4, Lanes) = in (Lanes, 4) transposed.
HWY_INLINE void transpose_block(const std::uint32_t* in, std::int64_t stride, std::uint32_t* out,
                                std::int64_t lanes) {
  const auto rows = [&](int first)
                        HWY_ATTR { return every_fourth_row(kBits, in + first * stride, stride); };
  const auto low = [](auto a, auto b)
                       HWY_ATTR { return hn::BitCast(kTwice, hn::InterleaveLower(kBits, a, b)); };
  const auto high = [](auto a, auto b)
                        HWY_ATTR { return hn::BitCast(kTwice, hn::InterleaveUpper(kBits, a, b)); };
  const auto write = [&](auto column, int i) HWY_ATTR {
    hn::StoreU(hn::BitCast(kBits, column), kBits, out + i * lanes);
  };
  const auto low_01 = low(rows(0), rows(1));
  const auto low_23 = low(rows(2), rows(3));
  const auto high_01 = high(rows(0), rows(1));
  const auto high_23 = high(rows(2), rows(3));
  write(hn::InterleaveLower(kTwice, low_01, low_23), 0);
  write(hn::InterleaveUpper(kTwice, low_01, low_23), 1);
  write(hn::InterleaveLower(kTwice, high_01, high_23), 2);
  write(hn::InterleaveUpper(kTwice, high_01, high_23), 3);
}

template <class E>
HWY_INLINE void transpose_blocks(const Matrix<const E>& in, const Matrix<E>& out) {
  constexpr auto kRows = static_cast<std::int64_t>(hn::MaxLanes(kBits));
  const std::int64_t whole_rows = in.rows / kRows * kRows;
  const std::int64_t whole_columns = in.columns / 4 * 4;
  // In registers: vectors that are stored might be what references refer to.
  const auto* const from = reinterpret_cast<const std::uint32_t*>(in.data);
  auto* const to = reinterpret_cast<std::uint32_t*>(out.data);
  const std::int64_t stride = in.stride;
  const std::int64_t lanes = out.stride;
  for (std::int64_t row = 0; row < whole_rows; row += kRows) {
    for (std::int64_t column = 0; column < whole_columns; column += 4) {
      transpose_block(from + row * stride + column, stride, to + column * lanes + row, lanes);
    }
  }
  transpose_values(in.from(0, whole_columns), out.from(whole_columns));
  transpose_values(in.block(whole_rows, 0, kRows, whole_columns), out.from(0, whole_rows));
}
#endif

template <class E>
void transpose(const Matrix<const E>& in, const Matrix<E>& out) {
  for (std::int64_t row = 0; in.rows < out.columns && row < in.columns; ++row) {
    E* const to = out.data + row * out.stride;
    std::fill(to + in.rows, to + out.columns, E{});
  }
#if HWY_TARGET == HWY_SCALAR
  transpose_values(in, out);
#else
  transpose_blocks(in, out);
#endif
}

void pair_rows_of(const Matrix<const bf16>& in, Pair* out) {
  for (std::int64_t row = 0; row < in.rows; row += 2, out += in.columns) {
    const auto* const first = reinterpret_cast<const std::uint16_t*>(in.from(row).data);
    const auto* const second = first + in.stride;
    const bool alone = row + 1 == in.rows;
    auto* const to = reinterpret_cast<std::uint32_t*>(out);
    for_vectors(0, in.columns, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const auto low = hn::PromoteTo(kBits, load_lanes(kHalves, first + i, lanes));
      const auto high =
          alone ? hn::Zero(kBits) : hn::PromoteTo(kBits, load_lanes(kHalves, second + i, lanes));
      store_lanes(kBits, hn::Or(low, hn::ShiftLeft<16>(high)), to + i, lanes);
    });
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class E>
void transpose(const Matrix<const E>& in, const Matrix<E>& out) {
  DDPRUN_DISPATCH(transpose, E)(in, out);
}
template void transpose(const Matrix<const float>&, const Matrix<float>&);
template void transpose(const Matrix<const Pair>&, const Matrix<Pair>&);

HWY_EXPORT(pair_rows_of);

void pair_rows(const Matrix<const bf16>& in, Pair* out) {
  HWY_DYNAMIC_DISPATCH(pair_rows_of)(in, out);
}

}  // namespace ddprun::kernels
#endif
