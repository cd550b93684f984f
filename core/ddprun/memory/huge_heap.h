// glibc's malloc, told to keep what is freed, and the heap that LibTorch fills while it is loaded
// in huge pages. Of headers alone, as programs call it before any library sets itself up.
#pragma once

#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace ddprun {

/// glibc's own parameter: from here on a block has a mapping of its own.
inline constexpr int kUsualThreshold = 128 << 10;

/// From now on malloc takes blocks of less than 1 GiB from the heap, which never shrinks, and grows
/// by `growth_bytes` beyond what is asked for.
inline void keep_heap(int growth_bytes) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, growth_bytes);
}

/// Grows malloc's heap by `bytes` at once, below 1 GiB, and asks the kernel for huge pages there: a
/// page fault is for 2 MiB then, and not for 4 KiB. What nobody writes to takes no memory. The heap
/// does not shrink until use_heap_as_usual(), or what else sets mallopt()'s parameters.
inline void grow_heap_in_huge_pages([[maybe_unused]] std::size_t bytes) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  keep_heap(0);
  void* const block = std::malloc(bytes);
  if (block == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (address + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(block);
#endif
}

/// With the parameters that glibc comes to by itself where large blocks are freed
/// (DEFAULT_MMAP_THRESHOLD_MAX): once one was set, it adapts none.
inline void use_heap_as_usual() {
  constexpr int kMost = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, 2 * kMost);
  mallopt(M_TOP_PAD, kUsualThreshold);
}

/// LibTorch makes 54 MB of small objects before main(). Call it before that, from .preinit_array,
/// and use_heap_as_usual() in main(): it takes a sixth off the time of loading.
inline void prepare_heap_for_libtorch() { grow_heap_in_huge_pages(std::size_t{56} << 20); }

}  // namespace ddprun
