// AMX products: operands packed into tiles, blocks for the caches, 32 x 32 results in registers.
#include "ddprun/kernels/product/product_amx.h"

#if defined(__x86_64__) && defined(__linux__)
#define DDPRUN_HAS_AMX_CODE 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddprun/kernels/product/tiles_amx.h"
#endif

#include <c10/util/Exception.h>

#include <algorithm>

namespace ddprun::kernels {

#ifdef DDPRUN_HAS_AMX_CODE

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
                                       Matrix<const float> addend, Matrix<float> out) {
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

/// Writes sums (32, 32) to `rows` rows of out, 32 values each, or fewer if `columns` leaves fewer.
DDPRUN_AMX inline void write_panel(const float* sums, std::int64_t rows, std::int64_t columns,
                                   Matrix<bf16> out) {
  const __mmask32 mask = columns >= 32 ? ~__mmask32{0} : (__mmask32{1} << columns) - 1;
  for (std::int64_t row = 0; row < rows; ++row, sums += kPanel) {
    const __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_load_ps(sums + kTile), _mm512_load_ps(sums));
    _mm512_mask_storeu_epi16(out.data + row * out.stride, mask, (__m512i)pair);
  }
}

/// The same into float32, added if `add`.
DDPRUN_AMX inline void write_panel(const float* sums, std::int64_t rows, std::int64_t columns,
                                   bool add, Matrix<float> out) {
  for (std::int64_t row = 0; row < rows; ++row, sums += kPanel) {
    float* const to = out.data + row * out.stride;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = sums[i] + (add ? to[i] : 0.0F);
  }
}

/// Prefetches the lines that a panel of results will be written to, while it is computed.
template <typename T>
void prefetch_panel(Matrix<T> c, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const line = c.data + row * c.stride;
    __builtin_prefetch(line, 1);
    if constexpr (sizeof(T) == 4) __builtin_prefetch(line + kTile, 1);
  }
}

// Both functions walk along the rows of c. Their lines mostly come from memory, and it is
// neighbours in a row that the hardware fetches ahead and that share a page.

/// c (m, n) = the packed block of a times that of b, or c += that if `add`.
DDPRUN_AMX void multiply_blocks(const Packed<bf16>& packed, std::int64_t m, std::int64_t n,
                                bool add, Matrix<float> c) {
  alignas(64) float sums[kPanel * kPanel];
  configure_tiles();
  for (std::int64_t row = 0; row < m; row += kPanel) {
    for (std::int64_t column = 0; column < n; column += kPanel) {
      const std::int64_t rows = std::min(kPanel, m - row);
      const std::int64_t columns = std::min(kPanel, n - column);
      const Matrix<float> out = c.from(row, column);
      const bf16* const a = packed.panel_a(row);
      const bf16* const b = packed.panel_b(column);
      prefetch_panel(out, rows);
      if (rows == kPanel && columns == kPanel) {
        multiply_panels(a, b, packed.depth / kStep, {add ? out.data : nullptr, out.stride}, out);
      } else {
        multiply_panels(a, b, packed.depth / kStep, {}, {sums, kPanel});
        write_panel(sums, rows, columns, add, out);
      }
    }
  }
  _tile_release();
}

/// c = the same, plus addend (in whole panels) if there is one, rounded to bfloat16.
DDPRUN_AMX void multiply_blocks(const Packed<bf16>& packed, std::int64_t m, std::int64_t n,
                                Matrix<const float> addend, Matrix<bf16> c) {
  alignas(64) float sums[kPanel * kPanel];
  configure_tiles();
  for (std::int64_t row = 0; row < m; row += kPanel) {
    for (std::int64_t column = 0; column < n; column += kPanel) {
      const std::int64_t rows = std::min(kPanel, m - row);
      const Matrix<bf16> out = c.from(row, column);
      prefetch_panel(out, rows);
      multiply_panels(packed.panel_a(row), packed.panel_b(column), packed.depth / kStep,
                      addend.data == nullptr ? addend : addend.from(row, column), {sums, kPanel});
      write_panel(sums, rows, std::min(kPanel, n - column), out);
    }
  }
  _tile_release();
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

  static void pack_left(Op op, const Source<bf16>& source, bf16* out) {
    op == Op::plain ? pack_rows(source, false, out) : pack_columns(source, true, out);
  }
  static void pack_right(Op op, const Source<bf16>& source, bf16* out) {
    op == Op::plain ? pack_columns(source, false, out) : pack_rows(source, true, out);
  }
  static void multiply(const Packed<bf16>& packed, std::int64_t m, std::int64_t n, bool add,
                       Matrix<float> c) {
    multiply_blocks(packed, m, n, add, c);
  }
  static void multiply(const Packed<bf16>& packed, std::int64_t m, std::int64_t n,
                       Matrix<const float> addend, Matrix<bf16> c) {
    multiply_blocks(packed, m, n, addend, c);
  }
};

bool ask_for_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kAvx512Bf16) == 0) return false;
  // Linux grants the 8 KiB of tile registers on demand (Documentation/arch/x86/xstate.rst).
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

}  // namespace

bool has_amx() {
  static const bool granted = ask_for_amx();
  return granted;
}

void amx_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  blocked_product<ByAmx>(op_a, op_b, m, n, k, a, b, add, c);
}

void amx_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  blocked_product<ByAmx>(op_a, op_b, m, n, k, a, b, false, c);
}

#else

bool has_amx() { return false; }

void amx_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                 Matrix<const bf16>, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "amx_product() without has_amx()");
}
void amx_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                 Matrix<const bf16>, Matrix<bf16>) {
  TORCH_INTERNAL_ASSERT(false, "amx_product() without has_amx()");
}

#endif

}  // namespace ddprun::kernels
