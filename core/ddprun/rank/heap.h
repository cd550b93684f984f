// The memory of a rank: how glibc's malloc gets it from the system, when it gives it back, and a
// limit, so that the rank ends with a sentence and not by the kernel.
#pragma once

#include <cstdint>

namespace ddprun {

/// From now on malloc takes blocks of less than 1 GiB from the heap, which never shrinks. So a
/// step's activations reuse the pages of the step before. By default glibc calls mmap() for each
/// large block and munmap() when it is freed, and the kernel zeroes the pages anew in every step.
void keep_freed_memory();

/// As long as this object lives, each block of 128 KiB or more has a mapping of its own, which is
/// unmapped when the block is freed. For allocations that no step repeats: those of building a
/// model, and of checks between steps. In the heap they would leave holes that fragment it, and the
/// blocks of the steps would make it grow. The destructor calls keep_freed_memory().
class LargeBlocksMapped {
 public:
  LargeBlocksMapped();
  ~LargeBlocksMapped();
  LargeBlocksMapped(const LargeBlocksMapped&) = delete;
  LargeBlocksMapped& operator=(const LargeBlocksMapped&) = delete;
};

/// Gives the free pages of the heap back to the system (malloc_trim). Call it before the first step
/// or after the last: between steps the next one would have to fetch them again.
void give_back_freed_memory();

/// From now on this process may take `gb` (1e9 bytes) of private memory beyond what it has now:
/// tensors, scratch memory, stacks; not what it shares with other ranks. An allocation beyond
/// that fails (RLIMIT_DATA). Replaces an earlier limit; 0: only the limit that the process was
/// started with. Throws Error if the system refuses.
void limit_memory(double gb);

/// What limit_memory() has limited.
struct MemoryLimit {
  double gb = 0;            ///< that may be taken; 0: no limit, or a lower one of the system counts
  std::int64_t before = 0;  ///< bytes of private memory that the process had
};
MemoryLimit memory_limit();

}  // namespace ddprun
