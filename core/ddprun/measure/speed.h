// How fast this machine copies memory and multiplies matrices: short measurements for `ddprun
// doctor`.
#pragma once

#include <ATen/core/ScalarType.h>

namespace ddprun {

/// Bytes read and written a second by memcpy of arrays larger than the caches, with `threads`
/// threads at the same time. Takes about 0.2 s.
double copy_bytes_per_second(int threads);

/// Operations a second of ATen's product of two square matrices of order 1024, on one thread. Takes
/// about 0.3 s. Leaves torch at one thread.
double product_flops(at::ScalarType dtype);

/// Whether the system grants huge pages to private memory, and to memory that ranks share (the shm
/// backend's).
struct HugePages {
  bool in_private_memory = false;
  bool in_shared_memory = false;
};
HugePages huge_pages();

}  // namespace ddprun
