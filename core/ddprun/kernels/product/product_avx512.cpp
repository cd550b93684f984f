// Products over panels, by VDPBF16PS or FMA: 12 x 32 results in 24 of the 32 registers.
#include "ddprun/kernels/product/product_instructions.h"

#include "ddprun/kernels/product/blocked_product.h"
#include "ddprun/kernels/product/vectors_avx512.h"

namespace ddprun::kernels {

namespace {

using namespace avx512;

/// Asks the second-level cache for rows of so many lines. A weight comes from memory, in as many
/// streams as a panel has rows, more than the hardware follows: panels of right operands ask for
/// the next one. Left operands are activations, which some cache holds.
template <int lines, class E>
DDPRUN_AVX512 inline void prefetch_rows(const Matrix<const E>& from, std::int64_t rows) {
  const E* row = from.data;
  for (std::int64_t i = 0; i < rows; ++i, row += from.stride) {
    _mm_prefetch(reinterpret_cast<const char*>(row), _MM_HINT_T1);
    if constexpr (lines > 1)
      _mm_prefetch(reinterpret_cast<const char*>(row + kValues<E>), _MM_HINT_T1);
  }
}

/// Whether rows push each other out of the first-level cache: 4 KiB apart, they have 8 lines there.
template <class E>
bool share_a_set(const Matrix<const E>& rows) {
  return rows.stride * static_cast<std::int64_t>(sizeof(E)) % 4096 == 0;
}

/// A panel of `width` rows, with k along them: out[word of k][row].
template <int width, class E, class P>
DDPRUN_AVX512 void pack_rows(const Matrix<const E>& source, P* out) {
  constexpr int kPart = width < kLanes ? width : static_cast<int>(kLanes);
  const std::int64_t depth = round_up(source.columns, kValues<P>);
  alignas(64) E copy[kLanes * kValues<P>];
  const bool crowded = share_a_set(source);
  for (std::int64_t row = 0; row < source.rows; row += width) {
    for (std::int64_t column = 0; column < source.columns; column += kValues<P>) {
      P* const to = out + row * depth + column * width;
      if constexpr (width > kLanes) prefetch_rows<1>(source.from(row + width, column), width);
      for (int lane = 0; lane < width; lane += kLanes) {
        const auto in = crowded ? copied_rows<P>(source, row + lane, column, kLanes, copy)
                                : whole_rows<P>(source, row + lane, column, kLanes, copy);
        transpose_words<kPart>(in, to + kInWord<P> * lane, kInWord<P> * width);
      }
    }
  }
}

/// Panels side by side of `width` columns each: 16 rows of words of each, from rows of values.
template <int width, int panels, class E, class P>
DDPRUN_AVX512 inline void pack_panels(const Rows<E>& in, std::int64_t depth, P* out) {
  constexpr int kVectors = kInWord<P> == 1 && width > kLanes ? 2 : 1;
  constexpr int kPart = width < kLanes ? width : static_cast<int>(kLanes);
  for (int i = 0; i < kLanes; ++i, out += kInWord<P> * width) {
#pragma GCC unroll 8
    for (int panel = 0; panel < panels; ++panel) {
      const Rows<E> columns = {in.data + panel * width, in.stride};
      const WordsOfRow words = row_of_words<P, kVectors>(columns, i);
      P* const to = out + panel * width * depth;
      write_words<kPart>(to, words.low);
      if constexpr (width > kLanes) write_words<kLanes>(to + kValues<P>, words.high);
    }
  }
}

/// Panels of `width` columns, with k along them: out[word of k][column]. Narrow ones are made 8 at
/// a time, so that a line is read once: rows that lie 4 KiB apart push each other out of the
/// first-level cache.
template <int width, class E, class P>
DDPRUN_AVX512 void pack_columns(const Matrix<const E>& source, P* out) {
  constexpr int kVectors = kInWord<P> == 1 && width > kLanes ? 2 : 1;
  constexpr int kPanels = width < kLanes ? 8 : 1;
  const std::int64_t depth = round_up(source.rows, kValues<P>);
  alignas(64) E copy[kValues<P> * kVectors * kValues<P>];
  for (std::int64_t row = 0; row < source.rows; row += kValues<P>) {
    P* const to = out + row * width;
    const bool whole = row + kValues<P> <= source.rows;
    const std::int64_t last = source.columns - (kPanels - 1) * width - kVectors * kValues<P>;
    std::int64_t column = 0;
    for (; whole && column <= last; column += kPanels * width) {
      if constexpr (width > kLanes) {
        prefetch_rows<kVectors>(source.from(row + kValues<P>, column), kValues<P>);
      }
      pack_panels<width, kPanels>(Rows<E>{source.from(row, column).data, source.stride}, depth,
                                  to + column * depth);
    }
    for (; column < source.columns; column += width) {
      pack_panels<width, 1>(whole_rows<P, kVectors>(source, row, column, kValues<P>, copy), depth,
                            to + column * depth);
    }
  }
}

/// Of operands of E, which are packed as P.
template <class E, class P>
struct ByAvx512 {
  using Element = P;
  static constexpr std::int64_t kRows = 12;
  static constexpr std::int64_t kColumns = 32;
  static constexpr std::int64_t kStep = kValues<P>;
  // The blocks of a and b stay in the second-level cache. A panel of b is more than the first-level
  // one has, and yet half as deep a block is 6 % slower: sums go to memory and back more often.
  static constexpr std::int64_t kBlockK = 1280 / sizeof(P);
  static constexpr std::int64_t kBlockN = 512;
  static constexpr std::int64_t kBlockM = 768;
  static constexpr std::int64_t kKept = 2 * 1024 * 1024 / sizeof(P);

  static void pack_left(const Matrix<const E>& a, P* out) {
    a.column_major ? pack_columns<kRows>(a.transposed(), out) : pack_rows<kRows>(a, out);
  }
  static void pack_right(const Matrix<const E>& b, P* out) {
    b.column_major ? pack_rows<kColumns>(b.transposed(), out) : pack_columns<kColumns>(b, out);
  }

  /// At most (rows, kColumns) of c = the product of two panels, plus addend if there is one.
  template <int rows, typename T>
  DDPRUN_AVX512 static void multiply_panels(const P* a, const P* b, std::int64_t depth,
                                            const Matrix<const float>& addend, const Matrix<T>& c,
                                            bool past_caches) {
    const std::int64_t present = c.rows;
    const std::int64_t columns = c.columns;
    __m512 sums[rows][2];
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      sums[row][0] = _mm512_setzero_ps();
      sums[row][1] = _mm512_setzero_ps();
    }
    constexpr int kWord = kInWord<P>;
    for (std::int64_t k = 0; k < depth; k += kWord, a += kWord * kRows, b += kWord * kColumns) {
      const auto low = load_words(b);
      const auto high = load_words(b + kValues<P>);
#pragma GCC unroll 12
      for (int row = 0; row < rows; ++row) {
        const auto word = broadcast_word(a + kWord * row);
        sums[row][0] = multiply_add(word, low, sums[row][0]);
        sums[row][1] = multiply_add(word, high, sums[row][1]);
      }
    }
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      if (row >= present) continue;
      if (addend.data != nullptr) {
        add_row(addend.data + row * addend.stride, columns, sums[row][0], sums[row][1]);
      }
      T* const to = c.data + row * c.stride;
      if constexpr (std::is_same_v<T, float>) {
        if (past_caches && columns >= kColumns) {
          stream_row(sums[row][0], sums[row][1], to);
          continue;
        }
      }
      write_row(sums[row][0], sums[row][1], columns, to);
    }
  }

  /// Whether c is a weight's gradient, which nobody reads soon, and has rows of whole lines. The
  /// line of a result need not be fetched then, and pushes no operand out of a cache.
  template <typename T>
  static bool seldom_read(const Matrix<T>& c) {
    constexpr std::int64_t kLine = 64;
    const auto bytes = static_cast<std::int64_t>(sizeof(T));
    return std::is_same_v<E, bf16> && std::is_same_v<T, float> && c.stride * bytes % kLine == 0 &&
           reinterpret_cast<std::uintptr_t>(c.data) % kLine == 0;
  }

  /// At most so many rows of c, the first of them `row`.
  template <int rows, typename T>
  static void multiply_rows(const Packed<P>& packed, std::int64_t row,
                            const Matrix<const float>& addend, const Matrix<T>& c) {
    const bool past_caches = packed.whole && addend.data == nullptr && seldom_read(c);
    for (std::int64_t column = 0; column < c.columns; column += kColumns) {
      multiply_panels<rows>(packed.panel_a(row), packed.panel_b(column), packed.depth,
                            addend.data == nullptr ? addend : addend.from(row, column),
                            c.from(row, column), past_caches);
    }
  }

  // It walks along the rows of c: the next panel takes the neighbours of lines that were just
  // touched. The last panel of a may have few rows.
  template <typename T>
  static void multiply(const Packed<P>& packed, const Matrix<const float>& addend,
                       const Matrix<T>& c) {
    std::int64_t row = 0;
    for (; row + 8 < c.rows; row += kRows) multiply_rows<kRows>(packed, row, addend, c);
    if (row + 4 < c.rows) {
      multiply_rows<8>(packed, row, addend, c);
    } else if (row < c.rows) {
      multiply_rows<4>(packed, row, addend, c);
    }
    _mm_sfence();  // other threads may read c
  }
};

}  // namespace

template <typename P, typename E, typename T>
void avx512_product(const Matrix<const E>& a, const Matrix<const E>& b, bool add,
                    const Matrix<T>& c) {
  blocked_product<ByAvx512<E, P>>(a, b, add, c);
}
#define DDPRUN_AVX512_PRODUCT(P, E, T)                                                  \
  template void avx512_product<P>(const Matrix<const E>&, const Matrix<const E>&, bool, \
                                  const Matrix<T>&)
DDPRUN_AVX512_PRODUCT(float, float, float);
DDPRUN_AVX512_PRODUCT(float, bf16, float);
DDPRUN_AVX512_PRODUCT(float, bf16, bf16);
DDPRUN_AVX512_PRODUCT(bf16, bf16, float);
DDPRUN_AVX512_PRODUCT(bf16, bf16, bf16);

}  // namespace ddprun::kernels
