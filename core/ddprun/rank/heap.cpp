// Settings of glibc's malloc. The limit is the system's.
#include "ddprun/rank/heap.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "ddprun/base/error.h"
#include "ddprun/measure/environment.h"
#include "ddprun/memory/huge_heap.h"

namespace ddprun {

namespace {

MemoryLimit limited;

rlimit current_limit() {
  rlimit limit = {};
  getrlimit(RLIMIT_DATA, &limit);
  return limit;
}

/// By how much the heap grows at a time, beyond what is asked for. Of a process whose memory is
/// limited it is a small part, as nobody else could have it.
int growth_bytes() {
  constexpr rlim_t kMost = 64 << 20, kPartOfLimit = 100;
  return static_cast<int>(std::min(kMost, current_limit().rlim_cur / kPartOfLimit));
}

}  // namespace

void keep_freed_memory() { keep_heap(growth_bytes()); }

LargeBlocksMapped::LargeBlocksMapped() { mallopt(M_MMAP_THRESHOLD, kUsualThreshold); }
LargeBlocksMapped::~LargeBlocksMapped() { keep_freed_memory(); }

void give_back_freed_memory() { malloc_trim(0); }

// Sets the soft limit alone, so that it can be raised again.
void limit_memory(double gb) {
  static const rlimit at_start = current_limit();
  rlimit wanted = at_start;
  MemoryLimit limit;
  if (gb > 0) {
    give_back_freed_memory();  // of an earlier run in this process
    const auto bytes = static_cast<rlim_t>(gb * 1e9);
    const std::int64_t taken = proc_bytes("/proc/self/status", "VmData");
    wanted.rlim_cur = std::min(at_start.rlim_cur, static_cast<rlim_t>(taken) + bytes);
    if (wanted.rlim_cur != at_start.rlim_cur) limit = {gb, taken};
  }
  if (setrlimit(RLIMIT_DATA, &wanted) == 0) {
    limited = limit;
    return;
  }
  throw Error({.what = "the memory of this process could not be limited",
               .where = "world.memory_limit_gb",
               .got = std::generic_category().message(errno),
               .expected = "that the system limits private memory (RLIMIT_DATA)",
               .hint = "run without world.memory_limit_gb"});
}

MemoryLimit memory_limit() { return limited; }

}  // namespace ddprun
