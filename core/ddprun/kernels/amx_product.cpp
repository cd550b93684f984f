// AMX products: operands packed into tiles, blocks for the caches, 32 x 32 results in registers.
#include "ddprun/kernels/amx_product.h"

#if defined(__x86_64__) && defined(__linux__)
#define DDPRUN_HAS_AMX_CODE 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddprun/kernels/amx_tiles.h"
#endif

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace ddprun::kernels {

#ifdef DDPRUN_HAS_AMX_CODE

namespace {

using namespace amx;

// A panel of kBlockK stays in the first-level cache, the blocks of a and b in the second-level one.
constexpr std::int64_t kBlockK = 512;
constexpr std::int64_t kBlockN = 512;
constexpr std::int64_t kBlockM = 1024;
constexpr std::int64_t kKept = 1024 * 1024;  // elements of a that stay packed for all of n

/// Prefetches a tile that a later step loads. Panels of a stream through the first-level cache, and
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
    prefetch_tile(a + 2 * kStepSize);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 512, 64);
    _tile_dpbf16ps(1, 4, 7);
    prefetch_tile(a + 2 * kStepSize + 512);
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

/// Packed operands of a block of c: panels of `steps` steps.
struct Packed {
  const bf16* a;
  const bf16* b;
  std::int64_t steps;

  const bf16* panel_a(std::int64_t row) const { return a + row / kPanel * steps * kStepSize; }
  const bf16* panel_b(std::int64_t column) const { return b + column / kPanel * steps * kStepSize; }
};

/// c (m, n) = the packed block of a times that of b, or c += that if `add`.
DDPRUN_AMX void multiply_blocks(const Packed& packed, std::int64_t m, std::int64_t n, bool add,
                                Matrix<float> c) {
  alignas(64) float sums[kPanel * kPanel];
  configure_tiles();
  for (std::int64_t column = 0; column < n; column += kPanel) {
    for (std::int64_t row = 0; row < m; row += kPanel) {
      const std::int64_t rows = std::min(kPanel, m - row);
      const std::int64_t columns = std::min(kPanel, n - column);
      const Matrix<float> out = c.from(row, column);
      const bf16* const a = packed.panel_a(row);
      const bf16* const b = packed.panel_b(column);
      prefetch_panel(out, rows);
      if (rows == kPanel && columns == kPanel) {
        multiply_panels(a, b, packed.steps, {add ? out.data : nullptr, out.stride}, out);
      } else {
        multiply_panels(a, b, packed.steps, {}, {sums, kPanel});
        write_panel(sums, rows, columns, add, out);
      }
    }
  }
  _tile_release();
}

/// c = the same, plus addend (in whole panels) if there is one, rounded to bfloat16.
DDPRUN_AMX void multiply_blocks(const Packed& packed, std::int64_t m, std::int64_t n,
                                Matrix<const float> addend, Matrix<bf16> c) {
  alignas(64) float sums[kPanel * kPanel];
  configure_tiles();
  for (std::int64_t column = 0; column < n; column += kPanel) {
    for (std::int64_t row = 0; row < m; row += kPanel) {
      const std::int64_t rows = std::min(kPanel, m - row);
      const Matrix<bf16> out = c.from(row, column);
      prefetch_panel(out, rows);
      multiply_panels(packed.panel_a(row), packed.panel_b(column), packed.steps,
                      addend.data == nullptr ? addend : addend.from(row, column), {sums, kPanel});
      write_panel(sums, rows, std::min(kPanel, n - column), out);
    }
  }
  _tile_release();
}

/// Memory of a thread, aligned to cache lines. It grows and is kept.
template <typename T>
class Workspace {
 public:
  T* at_least(std::int64_t size) {
    if (size > size_) {
      size_ = 0;
      memory_.reset();
      memory_.reset(new (std::align_val_t{64}) T[static_cast<std::size_t>(size)]);
      size_ = size;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::int64_t size_ = 0;
};

/// Where op(a)'s block of k lies in a.
Source block_of(Op op, Source source, std::int64_t row, std::int64_t k, std::int64_t rows,
                std::int64_t depth) {
  return op == Op::plain ? source.from(row, k, rows, depth) : source.from(k, row, depth, rows);
}

void pack_left(Op op, const Source& source, bf16* out) {
  op == Op::plain ? pack_rows(source, false, out) : pack_columns(source, true, out);
}
void pack_right(Op op, const Source& source, bf16* out) {
  op == Op::plain ? pack_columns(source, false, out) : pack_rows(source, true, out);
}

/// Computes at most kBlockM rows of c: kBlockN columns at a time, each over all of k.
template <typename T>
void multiply_rows(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Source a,
                   Source b, bool add, Matrix<T> c) {
  static thread_local Workspace<bf16> left, right;
  static thread_local Workspace<float> partial;
  const std::int64_t panels = round_up(m, kPanel);
  const std::int64_t depth = round_up(k, kStep);
  const bool keep_a = panels * depth <= kKept;
  bf16* const packed_a = left.at_least(panels * (keep_a ? depth : kBlockK));
  bf16* const packed_b = right.at_least(kBlockN * kBlockK);
  const auto pack_a = [&](std::int64_t from, bf16* out) {
    pack_left(op_a, block_of(op_a, a, 0, from, m, kBlockK), out);
  };
  if (keep_a) {
    for (std::int64_t from = 0; from < k; from += kBlockK) pack_a(from, packed_a + panels * from);
  }
  for (std::int64_t column = 0; column < n; column += kBlockN) {
    const std::int64_t columns = std::min(kBlockN, n - column);
    const Matrix<T> out = c.from(0, column);
    for (std::int64_t from = 0; from < k; from += kBlockK) {
      const std::int64_t steps = std::min(kBlockK, k - from);
      if (!keep_a) pack_a(from, packed_a);
      const Source b_block = op_b == Op::plain ? b.from(from, column, steps, columns)
                                               : b.from(column, from, columns, steps);
      pack_right(op_b, b_block, packed_b);
      const Packed packed = {keep_a ? packed_a + panels * from : packed_a, packed_b,
                             round_up(steps, kStep) / kStep};
      if constexpr (std::is_same_v<T, float>) {
        multiply_blocks(packed, m, columns, add || from > 0, out);
      } else {
        float* const sums = k > kBlockK ? partial.at_least(panels * kBlockN) : nullptr;
        if (from + steps < k) {
          multiply_blocks(packed, panels, round_up(columns, kPanel), from > 0, {sums, kBlockN});
        } else {
          multiply_blocks(packed, m, columns, {from > 0 ? sums : nullptr, kBlockN}, out);
        }
      }
    }
  }
}

template <typename T>
void multiply(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
              Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<T> c) {
  if (k == 0) {
    for (std::int64_t row = 0; row < m && !add; ++row) {
      std::fill_n(c.data + row * c.stride, n, T(0));
    }
    return;
  }
  const bool a_lies = op_a == Op::plain;
  const bool b_lies = op_b == Op::plain;
  const Source left = {a.data, a.stride, a_lies ? m : k, a_lies ? k : m};
  const Source right = {b.data, b.stride, b_lies ? k : n, b_lies ? n : k};
  for (std::int64_t row = 0; row < m; row += kBlockM) {
    const std::int64_t rows = std::min(kBlockM, m - row);
    multiply_rows<T>(op_a, op_b, rows, n, k, block_of(op_a, left, row, 0, rows, k), right, add,
                     c.from(row));
  }
}

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
  multiply<float>(op_a, op_b, m, n, k, a, b, add, c);
}

void amx_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  multiply<bf16>(op_a, op_b, m, n, k, a, b, false, c);
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
