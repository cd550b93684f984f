// Limits the memory that a rank may take, so that it ends with a sentence and not by the kernel.
#pragma once

namespace ddprun {

/// From now on this process may take `gb` (1e9 bytes) of private memory beyond what it has now:
/// tensors, scratch memory, stacks; not what it shares with other ranks. An allocation beyond
/// that fails (RLIMIT_DATA). Replaces an earlier limit; 0: only the limit that the process was
/// started with. Throws Error if the system refuses.
void limit_memory(double gb);

}  // namespace ddprun
