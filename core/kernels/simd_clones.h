// DDPRUN_SIMD: one copy of a function for each SIMD level, chosen when the library is loaded.
#pragma once

#if defined(__clang__)
#if __has_attribute(target_clones)
#define DDPRUN_HAS_CLONES 1
#endif
#elif defined(__GNUC__)
#define DDPRUN_HAS_CLONES 1
#endif

// The choice runs before a sanitizer's runtime is up, and would crash there.
#if defined(DDPRUN_HAS_CLONES) && defined(__x86_64__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DDPRUN_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DDPRUN_SIMD
#endif
