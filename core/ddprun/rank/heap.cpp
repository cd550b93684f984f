// Settings of glibc's malloc; of another one, nothing.
#include "ddprun/rank/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <limits>

namespace ddprun {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

LargeBlocksMapped::LargeBlocksMapped() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}
LargeBlocksMapped::~LargeBlocksMapped() { keep_freed_memory(); }

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ddprun
