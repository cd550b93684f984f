// Settings of glibc's malloc; of another one, nothing.
#include "ddprun/rank/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <sys/resource.h>

#include <algorithm>

#include "ddprun/memory/kept_heap.h"

namespace ddprun {

namespace {

/// By how much the heap grows at a time, beyond what is asked for. Of a process whose memory is
/// limited it is a small part, as nobody else could have it.
int growth_bytes() {
  constexpr rlim_t kMost = 64 << 20, kPartOfLimit = 100;
  rlimit limit = {};
  getrlimit(RLIMIT_DATA, &limit);
  return static_cast<int>(std::min(kMost, limit.rlim_cur / kPartOfLimit));
}

}  // namespace

void keep_freed_memory() { keep_heap(growth_bytes()); }

LargeBlocksMapped::LargeBlocksMapped() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, kUsualThreshold);
#endif
}
LargeBlocksMapped::~LargeBlocksMapped() { keep_freed_memory(); }

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ddprun
