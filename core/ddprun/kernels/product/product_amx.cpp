// AMX products: operands packed into tiles, blocks for the caches, 32 x 32 results in registers.
#include "ddprun/kernels/product/product_instructions.h"

#include <immintrin.h>

#include <type_traits>

#include "ddprun/kernels/product/blocked_product.h"
#include "ddprun/kernels/product/tiles_amx.h"

namespace ddprun::kernels {

namespace {

using namespace amx;

/// Prefetches a tile that a later step loads. Panels of b stream through the first-level cache, and
/// the hardware does not foresee tile loads.
DDPRUN_AMX inline void prefetch_tile(const bf16* tile) {
  for (int row = 0; row < kTile; ++row) {
    _mm_prefetch(reinterpret_cast<const char*>(tile + row * 32), _MM_HINT_T0);
  }
}

/// out (32, 32) = the product of a panel of a and a panel of b, plus addend if there is one.
DDPRUN_AMX inline void multiply_panels(const bf16* a, const bf16* b, std::int64_t steps,
                                       const Matrix<const float>& addend,
                                       const Matrix<float>& out) {
  if (addend.data != nullptr) {
    const float* const below = addend.data + kTile * addend.stride;
    _tile_loadd(0, addend.data, addend.stride * 4);
    _tile_loadd(1, addend.data + kTile, addend.stride * 4);
    _tile_loadd(2, below, addend.stride * 4);
    _tile_loadd(3, below + kTile, addend.stride * 4);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t step = 0; step < steps; ++step, a += kStepSize, b += kStepSize) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    prefetch_tile(b + 2 * kStepSize);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 512, 64);
    _tile_dpbf16ps(1, 4, 7);
    prefetch_tile(b + 2 * kStepSize + 512);
    _tile_loadd(5, a + 512, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float* const below = out.data + kTile * out.stride;
  _tile_stored(0, out.data, out.stride * 4);
  _tile_stored(1, out.data + kTile, out.stride * 4);
  _tile_stored(2, below, out.stride * 4);
  _tile_stored(3, below + kTile, out.stride * 4);
}

/// Writes sums (32, 32) to out, or fewer if that is smaller.
DDPRUN_AMX inline void write_panel(const float* sums, bool /*add*/, const Matrix<bf16>& out) {
  const __mmask32 mask = out.columns >= 32 ? ~__mmask32{0} : (__mmask32{1} << out.columns) - 1;
  for (std::int64_t row = 0; row < out.rows; ++row, sums += kPanel) {
    const __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_load_ps(sums + kTile), _mm512_load_ps(sums));
    _mm512_mask_storeu_epi16(out.data + row * out.stride, mask, (__m512i)pair);
  }
}

/// The same into float32, added if `add`.
DDPRUN_AMX inline void write_panel(const float* sums, bool add, const Matrix<float>& out) {
  for (std::int64_t row = 0; row < out.rows; ++row, sums += kPanel) {
    float* const to = out.data + row * out.stride;
    for (std::int64_t i = 0; i < out.columns; ++i) to[i] = sums[i] + (add ? to[i] : 0.0F);
  }
}

/// Prefetches the lines that a panel of results will be written to, while it is computed.
template <typename T>
void prefetch_panel(const Matrix<T>& c) {
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const T* const line = c.data + row * c.stride;
    __builtin_prefetch(line, 1);
    if constexpr (sizeof(T) == 4) __builtin_prefetch(line + kTile, 1);
  }
}

struct ByAmx {
  using Element = bf16;
  static constexpr std::int64_t kRows = kPanel;
  static constexpr std::int64_t kColumns = kPanel;
  static constexpr std::int64_t kStep = amx::kStep;
  // A panel of kBlockK stays in the first-level cache, the blocks of a and b in the second-level
  // one.
  static constexpr std::int64_t kBlockK = 512;
  static constexpr std::int64_t kBlockN = 512;
  static constexpr std::int64_t kBlockM = 1024;
  static constexpr std::int64_t kKept = 1024 * 1024;

  static void pack_left(const Matrix<const bf16>& a, bf16* out) {
    a.column_major ? pack_columns(a.transposed(), true, out) : pack_rows(a, false, out);
  }
  static void pack_right(const Matrix<const bf16>& b, bf16* out) {
    b.column_major ? pack_rows(b.transposed(), true, out) : pack_columns(b, false, out);
  }

  // It walks along the rows of c. Their lines mostly come from memory, and it is neighbours in a
  // row that the hardware fetches ahead and that share a page.
  template <typename T>
  DDPRUN_AMX static void multiply(const Packed<bf16>& packed, const Matrix<const float>& addend,
                                  const Matrix<T>& c) {
    alignas(64) float sums[kPanel * kPanel];
    const Matrix<float> panel = {sums, kPanel, kPanel, kPanel};
    const std::int64_t steps = packed.depth / kStep;
    configure_tiles();
    for (std::int64_t row = 0; row < c.rows; row += kPanel) {
      for (std::int64_t column = 0; column < c.columns; column += kPanel) {
        const Matrix<T> out = c.block(row, column, kPanel, kPanel);
        const Matrix<const float> addend_here =
            addend.data == nullptr ? addend : addend.from(row, column);
        const bf16* const a = packed.panel_a(row);
        const bf16* const b = packed.panel_b(column);
        prefetch_panel(out);
        if constexpr (std::is_same_v<T, float>) {
          if (out.rows == kPanel && out.columns == kPanel) {
            multiply_panels(a, b, steps, addend_here, out);
          } else {  // no tile may reach beyond c
            multiply_panels(a, b, steps, {}, panel);
            write_panel(sums, addend_here.data != nullptr, out);
          }
        } else {
          multiply_panels(a, b, steps, addend_here, panel);
          write_panel(sums, false, out);
        }
      }
    }
    _tile_release();
  }
};

}  // namespace

template <typename T>
void amx_product(const Matrix<const bf16>& a, const Matrix<const bf16>& b, bool add,
                 const Matrix<T>& c) {
  blocked_product<ByAmx>(a, b, add, c);
}
template void amx_product(const Matrix<const bf16>&, const Matrix<const bf16>&, bool,
                          const Matrix<float>&);
template void amx_product(const Matrix<const bf16>&, const Matrix<const bf16>&, bool,
                          const Matrix<bf16>&);

}  // namespace ddprun::kernels
