// Products of small matrices whose operands are already laid out for the registers.
//
// Family: tile_product.cpp tile_product_amx.cpp tile_product_avx512.cpp
#pragma once

#include <cstddef>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// `lanes` below is a multiple of this.
constexpr std::int64_t kLaneUnit = 16;

/// Rows that are read or written soon. A product asks the caches for a few of their lines at a
/// time, so that they come while it multiplies: all at once would hold up its own reads.
class Ahead {
 public:
  Ahead() = default;
  /// `then`: what is asked for after them.
  template <class T>
  explicit Ahead(const Matrix<T>& rows, Ahead* then = nullptr)
      : row_(reinterpret_cast<const std::byte*>(rows.data)),
        stride_(rows.stride * static_cast<std::int64_t>(sizeof(T))),
        bytes_(rows.columns * static_cast<std::int64_t>(sizeof(T))),
        rows_(rows.rows),
        then_(then) {}

  /// Asks for so many lines of those that are left. Inlined it would take a product's registers.
  [[gnu::noinline]] void ask(std::int64_t lines);

 private:
  const std::byte* row_ = nullptr;
  std::int64_t stride_ = 0, bytes_ = 0, rows_ = 0, at_ = 0;
  Ahead* then_ = nullptr;
};

/// Rows of c that a product works on at a time. Fewer take as long.
std::int64_t product_rows();

// A product sums over steps. A step is one term if the elements are floats, two if they are pairs.

/// c (rows, lanes) = left (rows, steps) right (steps, lanes), or c += that if `add`. Only left may
/// be column-major. Sums are float32, over some tens of steps at a time. c overlaps no operand.
/// Meanwhile what lies `ahead` is asked for, as far as the time goes.
void tile_product(const Matrix<const float>& left, const Matrix<const float>& right, bool add,
                  const Matrix<float>& c, Ahead& ahead);

/// The same of pairs, by AMX or by AVX-512's bfloat16 instructions where that is the
/// product_path(). Else it is tile_product_by_floats(), which is slower than widening whole tiles
/// and multiplying floats.
void tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                  const Matrix<float>& c, Ahead& ahead);

/// The same on any CPU: each half of a pair is widened to float32 in a register.
void tile_product_by_floats(const Matrix<const Pair>& left, const Matrix<const Pair>& right,
                            bool add, const Matrix<float>& c, Ahead& ahead);

/// The same on AMX tiles (Xeon from Sapphire Rapids on). Call it only where has(ProductPath::amx).
/// Denormal operands count as zero, as AMX has it.
void amx_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                      const Matrix<float>& c, Ahead& ahead);

/// The same on vectors of 16 pairs (AMD from Zen 4, Intel from Cooper Lake on). Call it only where
/// has(ProductPath::avx512_bf16). Denormal operands count as zero, as the instruction has it.
void avx512_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                         const Matrix<float>& c, Ahead& ahead);

}  // namespace ddprun::kernels
