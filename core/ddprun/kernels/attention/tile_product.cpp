// Products of tiles by vectors of float32: a block of c stays in registers over all steps.
#include "ddprun/kernels/attention/tile_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ddprun/kernels/product/product_path.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/attention/tile_product.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// Rows of a block of two vectors: what leaves registers for the operands, of which pairs need
/// more.
template <class E>
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 12 : (std::is_same_v<E, float> ? 6 : 4);

/// sums[row][v] += left * right of one step: `spread` makes a vector of a left element, `load` one
/// of right elements.
template <int rows, int vectors, class E, class Spread, class Load>
HWY_INLINE void multiply_terms(const E* left, std::int64_t row_stride, const E* right,
                               const Spread& spread, const Load& load,
                               Vector (&sums)[rows][vectors]) {
  const std::size_t lanes = hn::Lanes(kFloats);
  Vector b[vectors];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) b[v] = load(right + v * lanes);
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
    const Vector a = spread(left + row * row_stride);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[row][v] = hn::MulAdd(a, b[v], sums[row][v]);
  }
}

template <int rows, int vectors>
HWY_INLINE void multiply_step(const float* left, std::int64_t row_stride, const float* right,
                              Vector (&sums)[rows][vectors]) {
  multiply_terms(
      left, row_stride, right, [](const float* from) HWY_ATTR { return hn::Set(kFloats, *from); },
      [](const float* from) HWY_ATTR { return hn::LoadU(kFloats, from); }, sums);
}

HWY_INLINE Vector first_halves(hn::Vec<Bits> pairs) {
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(pairs));
}
HWY_INLINE Vector second_halves(hn::Vec<Bits> pairs) {
  return hn::BitCast(kFloats, hn::And(pairs, hn::Set(kBits, 0xFFFF0000u)));
}
HWY_INLINE hn::Vec<Bits> load_pairs(const Pair* from) {
  return hn::LoadU(kBits, reinterpret_cast<const std::uint32_t*>(from));
}
HWY_INLINE hn::Vec<Bits> broadcast_pair(const Pair* from) {
  std::uint32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return hn::Set(kBits, bits);
}

/// The same of pairs, all first halves before all second ones: fewer registers.
template <int rows, int vectors>
HWY_INLINE void multiply_step(const Pair* left, std::int64_t row_stride, const Pair* right,
                              Vector (&sums)[rows][vectors]) {
  multiply_terms(
      left, row_stride, right,
      [](const Pair* from) HWY_ATTR { return first_halves(broadcast_pair(from)); },
      [](const Pair* from) HWY_ATTR { return first_halves(load_pairs(from)); }, sums);
  multiply_terms(
      left, row_stride, right,
      [](const Pair* from) HWY_ATTR { return second_halves(broadcast_pair(from)); },
      [](const Pair* from) HWY_ATTR { return second_halves(load_pairs(from)); }, sums);
}

/// to (rows, vectors * Lanes) = sums, or to += sums if `add`.
template <int rows, int vectors>
HWY_INLINE void write_sums(const Vector (&sums)[rows][vectors], bool add, float* to,
                           std::int64_t stride) {
  const std::size_t lanes = hn::Lanes(kFloats);
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row, to += stride) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const at = to + v * lanes;
      const Vector sum = sums[row][v];
      hn::StoreU(add ? hn::Add(hn::LoadU(kFloats, at), sum) : sum, kFloats, at);
    }
  }
}

/// Sums of at most so many steps are rounded one by one; such sums are added to c. Longer ones
/// would be large next to what they take in, and lose its last bits.
constexpr std::int64_t kSteps = 32;
/// Lines that are asked for in so many steps.
constexpr std::int64_t kLinesAhead = 8;

/// One block of c: (rows, vectors * Lanes) at (first_row, first_lane). It stays in the first-level
/// cache over all steps.
template <int rows, int vectors, class E>
HWY_NOINLINE void multiply_block(const Matrix<const E>& left, const Matrix<const E>& right,
                                 bool add, const Matrix<float>& c, std::int64_t first_row,
                                 std::int64_t first_lane, Ahead& ahead) {
  const std::int64_t row_stride = left.row_stride();
  const std::int64_t step_stride = left.column_stride();
  const std::int64_t right_stride = right.stride;
  const E* a = left.data + first_row * row_stride;
  const E* b = right.data + first_lane;
  for (std::int64_t first = 0; first == 0 || first < left.columns; first += kSteps) {
    ahead.ask(kLinesAhead);
    Vector sums[rows][vectors];
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[row][v] = hn::Zero(kFloats);
    }
    std::int64_t steps = std::min(kSteps, left.columns - first);
    for (; steps > 0; --steps, a += step_stride, b += right_stride) {
      multiply_step<rows, vectors>(a, row_stride, b, sums);
    }
    write_sums(sums, add || first > 0, c.data + first_row * c.stride + first_lane, c.stride);
  }
}

/// multiply_block() for a number of rows that is known at run time: those that are left, or `most`.
template <int most, int vectors, class E>
HWY_INLINE void multiply_rows(const Matrix<const E>& left, const Matrix<const E>& right, bool add,
                              const Matrix<float>& c, std::int64_t row, std::int64_t lane,
                              Ahead& ahead) {
  if constexpr (most > 1) {
    if (left.rows - row < most) {
      return multiply_rows<most - 1, vectors>(left, right, add, c, row, lane, ahead);
    }
  }
  multiply_block<most, vectors>(left, right, add, c, row, lane, ahead);
}

template <int vectors, class E>
HWY_INLINE void multiply_lanes(const Matrix<const E>& left, const Matrix<const E>& right, bool add,
                               const Matrix<float>& c, std::int64_t lane, Ahead& ahead) {
  for (std::int64_t row = 0; row < left.rows; row += kRows<E>) {
    multiply_rows<kRows<E>, vectors>(left, right, add, c, row, lane, ahead);
  }
}

template <class E>
HWY_INLINE void multiply_tiles(const Matrix<const E>& left, const Matrix<const E>& right, bool add,
                               const Matrix<float>& c, Ahead& ahead) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(kFloats));
  std::int64_t lane = 0;
  for (; lane + 2 * width <= right.columns; lane += 2 * width) {
    multiply_lanes<2>(left, right, add, c, lane, ahead);
  }
  for (; lane < right.columns; lane += width) multiply_lanes<1>(left, right, add, c, lane, ahead);
}

void multiply_floats(const Matrix<const float>& left, const Matrix<const float>& right, bool add,
                     const Matrix<float>& c, Ahead& ahead) {
  multiply_tiles(left, right, add, c, ahead);
}
void multiply_pairs(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                    const Matrix<float>& c, Ahead& ahead) {
  multiply_tiles(left, right, add, c, ahead);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

void Ahead::ask(std::int64_t lines) {
  constexpr std::int64_t kLine = 64;
  for (; lines > 0 && rows_ > 0; --lines) {
    __builtin_prefetch(row_ + at_);
    at_ += kLine;
    if (at_ < bytes_) continue;
    at_ = 0;
    row_ += stride_;
    --rows_;
  }
  if (lines > 0 && then_ != nullptr) then_->ask(lines);
}

std::int64_t product_rows() { return product_path() == ProductPath::amx ? 32 : 12; }

HWY_EXPORT(multiply_floats);
HWY_EXPORT(multiply_pairs);

void tile_product(const Matrix<const float>& left, const Matrix<const float>& right, bool add,
                  const Matrix<float>& c, Ahead& ahead) {
  HWY_DYNAMIC_DISPATCH(multiply_floats)(left, right, add, c, ahead);
}

void tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                  const Matrix<float>& c, Ahead& ahead) {
  static const auto chosen = [] {
    if (product_path() == ProductPath::amx) return amx_tile_product;
    if (product_path() == ProductPath::avx512_bf16) return avx512_tile_product;
    return tile_product_by_floats;
  }();
  chosen(left, right, add, c, ahead);
}

void tile_product_by_floats(const Matrix<const Pair>& left, const Matrix<const Pair>& right,
                            bool add, const Matrix<float>& c, Ahead& ahead) {
  HWY_DYNAMIC_DISPATCH(multiply_pairs)(left, right, add, c, ahead);
}

}  // namespace ddprun::kernels
#endif
