// glibc's malloc, told to keep what is freed. In no library, as programs call it before any sets
// itself up.
#pragma once

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <limits>

namespace ddprun {

/// glibc's own parameter: from here on a block has a mapping of its own.
inline constexpr int kUsualThreshold = 128 << 10;

/// From now on malloc takes blocks of less than 1 GiB from the heap, which never shrinks, and grows
/// by `growth_bytes` beyond what is asked for.
inline void keep_heap([[maybe_unused]] int growth_bytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, growth_bytes);
#endif
}

}  // namespace ddprun
