// Vectors of AVX-512: packing of float32 values or pairs of bfloat16 values, and rows of results.
#pragma once

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "ddprun/kernels/types.h"

// Only functions with this attribute are compiled for AVX-512; has(ProductPath::avx512_bf16) asks
// the CPU before one runs.
#define DDPRUN_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace ddprun::kernels::avx512 {

// A word is 32 bits: a float, or two bfloat16 values that are neighbours in the direction of the
// sum. Where values of type E are packed as values of another type P, they are bfloat16, and
// widened to float.
constexpr std::int64_t kLanes = 16;  // words of a vector
template <class E>
constexpr int kInWord = 4 / sizeof(E);  // values of a word
template <class E>
constexpr std::int64_t kValues = kLanes* kInWord<E>;  // of a vector; of k packed at a time

inline __mmask32 first_values(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

/// Copies a vector's values as they are, and zeros for the others.
template <class P>
DDPRUN_AVX512 inline void copy_first(__mmask32 which, const bf16* from, bf16* to) {
  if constexpr (std::is_same_v<P, bf16>) {
    _mm512_store_si512(to, _mm512_maskz_loadu_epi16(which, from));
  } else {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                       _mm256_maskz_loadu_epi16(static_cast<__mmask16>(which), from));
  }
}
template <class P>
DDPRUN_AVX512 inline void copy_first(__mmask32 which, const float* from, float* to) {
  _mm512_store_ps(to, _mm512_maskz_loadu_ps(static_cast<__mmask16>(which), from));
}

/// Rows of whole vectors. It is all that inner loops need of a Matrix, and stays in registers.
template <class E>
struct Rows {
  const E* data;
  std::int64_t stride;
};

/// `rows` rows of so many vectors of P each, from (row, column) on, copied: zeros beyond the
/// matrix.
template <class P, int vectors = 1, class E>
DDPRUN_AVX512 inline Rows<E> copied_rows(const Matrix<const E>& source, std::int64_t row,
                                         std::int64_t column, std::int64_t rows, E* copy) {
  constexpr std::int64_t kWidth = vectors * kValues<P>;
  const E* const from = source.data + row * source.stride + column;
  const std::int64_t left = source.columns - column;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t first = 0; first < kWidth; first += kValues<P>) {
      const bool present = row + i < source.rows && left > first;
      copy_first<P>(present ? first_values(left - first) : 0, from + i * source.stride + first,
                    copy + i * kWidth + first);
    }
  }
  return {copy, kWidth};
}

/// The same where they lie, and copied at the matrix's end alone.
template <class P, int vectors = 1, class E>
DDPRUN_AVX512 inline Rows<E> whole_rows(const Matrix<const E>& source, std::int64_t row,
                                        std::int64_t column, std::int64_t rows, E* copy) {
  const bool inside = row + rows <= source.rows && column + vectors * kValues<P> <= source.columns;
  if (inside) return {source.data + row * source.stride + column, source.stride};
  return copied_rows<P, vectors>(source, row, column, rows, copy);
}

/// 16 bfloat16 values as floats.
DDPRUN_AVX512 inline __m512i widened(__m256i values) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16);
}

template <class P>
DDPRUN_AVX512 inline __m512i load_vector(const P* from) {
  return _mm512_loadu_si512(from);
}
template <class P>
requires std::is_same_v<P, float> DDPRUN_AVX512 inline __m512i load_vector(const bf16* from) {
  return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

template <class E>
DDPRUN_AVX512 inline __m128i load_quarter(const E* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// Four times four words, a fixed distance apart.
template <class P>
DDPRUN_AVX512 inline __m512i gather_quarters(const P* from, std::int64_t distance) {
  __m512i all = _mm512_castsi128_si512(load_quarter(from));
  all = _mm512_inserti32x4(all, load_quarter(from + distance), 1);
  all = _mm512_inserti32x4(all, load_quarter(from + 2 * distance), 2);
  return _mm512_inserti32x4(all, load_quarter(from + 3 * distance), 3);
}

template <class P>
requires std::is_same_v<P, float> DDPRUN_AVX512 inline __m512i gather_quarters(
    const bf16* from, std::int64_t distance) {
  const auto four = [&](int i) DDPRUN_AVX512 {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * distance));
  };
  const __m128i low = _mm_unpacklo_epi64(four(0), four(1));
  const __m128i high = _mm_unpacklo_epi64(four(2), four(3));
  return widened(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
}

/// Writes the first `lanes` words: a whole vector, or at most 12.
template <int lanes, class P>
DDPRUN_AVX512 inline void write_words(P* to, __m512i words) {
  if constexpr (lanes == kLanes) {
    _mm512_storeu_si512(to, words);
  } else {
    static_assert(lanes == 12);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(words));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8 * kInWord<P>),
                     _mm512_extracti32x4_epi32(words, 2));
  }
}

/// 16 rows of out, each of `lanes` words, `stride` values apart = 16 rows of 16 words, transposed.
template <int lanes, class E, class P>
DDPRUN_AVX512 inline void transpose_words(Rows<E> in, P* out, std::int64_t stride) {
  for (int word = 0; word < kLanes; word += 4) {
    __m512i x[4];  // x[i]: four words each of rows i, i + 4, i + 8, i + 12
    for (int i = 0; i < 4; ++i) {
      x[i] = gather_quarters<P>(in.data + i * in.stride + kInWord<P> * word, 4 * in.stride);
    }
    const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]);
    const __m512i b = _mm512_unpackhi_epi32(x[0], x[1]);
    const __m512i c = _mm512_unpacklo_epi32(x[2], x[3]);
    const __m512i d = _mm512_unpackhi_epi32(x[2], x[3]);
    P* const to = out + word * stride;
    write_words<lanes>(to, _mm512_unpacklo_epi64(a, c));
    write_words<lanes>(to + stride, _mm512_unpackhi_epi64(a, c));
    write_words<lanes>(to + 2 * stride, _mm512_unpacklo_epi64(b, d));
    write_words<lanes>(to + 3 * stride, _mm512_unpackhi_epi64(b, d));
  }
}

DDPRUN_AVX512 inline __m512 load_words(const float* from) { return _mm512_loadu_ps(from); }
DDPRUN_AVX512 inline __m512bh load_words(const bf16* from) {
  return (__m512bh)_mm512_loadu_si512(from);
}

/// The word at `from` in every lane.
DDPRUN_AVX512 inline __m512 broadcast_word(const float* from) { return _mm512_set1_ps(*from); }
DDPRUN_AVX512 inline __m512bh broadcast_word(const bf16* from) {
  int bits;
  std::memcpy(&bits, from, sizeof(bits));
  return (__m512bh)_mm512_set1_epi32(bits);
}

/// sums + the products of a and b.
DDPRUN_AVX512 inline __m512 multiply_add(__m512 a, __m512 b, __m512 sums) {
  return _mm512_fmadd_ps(a, b, sums);
}
DDPRUN_AVX512 inline __m512 multiply_add(__m512bh a, __m512bh b, __m512 sums) {
  return _mm512_dpbf16_ps(sums, a, b);
}

struct WordsOfRow {
  __m512i low, high;  // columns 0 to 15, and 16 to 31
};

/// Two rows of 32 values as pairs, one value of each row.
DDPRUN_AVX512 inline WordsOfRow pair_up(const bf16* even_row, const bf16* odd_row) {
  alignas(64) static constexpr std::uint16_t kPairs[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i even = _mm512_loadu_si512(even_row);
  const __m512i odd = _mm512_loadu_si512(odd_row);
  return {_mm512_permutex2var_epi16(even, _mm512_load_si512(kPairs[0]), odd),
          _mm512_permutex2var_epi16(even, _mm512_load_si512(kPairs[1]), odd)};
}

/// Rows whose values make words with each other, if it takes two of them: the i-th row of words,
/// from so many vectors.
template <class P, int vectors, class E>
DDPRUN_AVX512 inline WordsOfRow row_of_words(Rows<E> in, int i) {
  if constexpr (std::is_same_v<P, bf16>) {
    return pair_up(in.data + 2 * i * in.stride, in.data + (2 * i + 1) * in.stride);
  } else {
    const E* const row = in.data + i * in.stride;
    return {load_vector<P>(row), load_vector<P>(row + (vectors - 1) * kLanes)};
  }
}

/// Writes 32 sums, or fewer if `columns` leaves fewer.
DDPRUN_AVX512 inline void write_row(__m512 low, __m512 high, std::int64_t columns, float* to) {
  if (columns >= 32) {
    _mm512_storeu_ps(to, low);
    _mm512_storeu_ps(to + kLanes, high);
    return;
  }
  const __mmask32 mask = first_values(columns);
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), low);
  _mm512_mask_storeu_ps(to + kLanes, static_cast<__mmask16>(mask >> kLanes), high);
}
DDPRUN_AVX512 inline void write_row(__m512 low, __m512 high, std::int64_t columns, bf16* to) {
  const auto pair = (__m512i)_mm512_cvtne2ps_pbh(high, low);
  if (columns >= 32) {
    _mm512_storeu_si512(to, pair);
  } else {
    _mm512_mask_storeu_epi16(to, first_values(columns), pair);
  }
}

/// Writes 32 sums past the caches, to the beginning of a line.
DDPRUN_AVX512 inline void stream_row(__m512 low, __m512 high, float* to) {
  _mm512_stream_ps(to, low);
  _mm512_stream_ps(to + kLanes, high);
}

/// Reads what write_row() may write.
DDPRUN_AVX512 inline void add_row(const float* from, std::int64_t columns, __m512& low,
                                  __m512& high) {
  const __mmask32 mask = first_values(columns);
  low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from));
  high = _mm512_add_ps(
      high, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> kLanes), from + kLanes));
}

}  // namespace ddprun::kernels::avx512
