// What differs between CPUs of one SIMD level.
#pragma once

#include <cstddef>

namespace ddprun::kernels {

inline const bool kIsAmd = __builtin_cpu_is("amd") != 0;
/// Whether it has AVX512-BF16, which no level of Highway 1.0.3 is about, and what level AVX3 is.
inline const bool kHasAvx512Bf16 =
    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
    __builtin_cpu_supports("avx512bf16");

/// Whether VDPBF16PS multiplies more values in a cycle than FMA does. AMD's makes twice as many. An
/// Intel CPU begins two FMAs a cycle and a VDPBF16PS every other one, which is half as many
/// (Emerald Rapids, measured): it leaves bfloat16 to AMX.
inline const bool kFastBf16Dots = kHasAvx512Bf16 && kIsAmd;

/// How far ahead loops over long arrays prefetch, in bytes, measured with AdamW's four arrays.
/// Intel's prefetcher follows few arrays at a time, and none past the end of a page, so the loop
/// looks far ahead. AMD's keeps up by itself: 512 bytes take 0.95 of the time without a copy, and
/// 2 KiB 1.15 (Zen 4, of PyTorch's).
inline const std::size_t kPrefetchAhead = kIsAmd ? 512 : 2048;

}  // namespace ddprun::kernels
