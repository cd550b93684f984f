// How glibc's malloc gets memory from the system, and when it gives it back.
#pragma once

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

}  // namespace ddprun
