// What malloc does with memory that is freed.
#pragma once

namespace ddprun {

/// Activations of the next step go where the last step's lay: by default glibc maps each large
/// block anew and gives it back, and the kernel clears its pages every time.
void keep_freed_memory();

/// As long as this object lives, malloc maps large blocks for themselves and gives them back when
/// they are freed. For building a model: the memory of its first parameters would leave holes in
/// the heap as large as itself, among which the steps' blocks then spread. And for checks between
/// steps, whose blocks fit nowhere among those. Afterwards malloc keeps what is freed.
class LargeBlocksMapped {
 public:
  LargeBlocksMapped();
  ~LargeBlocksMapped();
  LargeBlocksMapped(const LargeBlocksMapped&) = delete;
  LargeBlocksMapped& operator=(const LargeBlocksMapped&) = delete;
};

/// Gives the system what is free in the heap. Called where no step's memory is lost by it: after
/// the model was built and checked, before the steps whose memory malloc is to keep, and after the
/// last.
void give_back_freed_memory();

}  // namespace ddprun
