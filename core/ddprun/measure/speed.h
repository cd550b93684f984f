// How fast this machine copies memory, and whether it has huge pages: short measurements for
// `ddprun doctor`.
#pragma once

namespace ddprun {

/// Bytes read and written a second by memcpy of arrays larger than the caches, with `threads`
/// threads at the same time. Takes about 0.2 s.
double copy_bytes_per_second(int threads);

/// Whether the system grants huge pages to private memory, and to the shm backend's.
struct HugePages {
  bool in_private_memory = false;
  bool in_shared_memory = false;
};
HugePages huge_pages();

}  // namespace ddprun
