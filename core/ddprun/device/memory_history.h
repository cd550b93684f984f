// The history of a device's allocator, for PyTorch's memory viewer.
#pragma once

#include <string>

#include "ddprun/measure/phase.h"

namespace ddprun {

/// Records each allocation and free as long as it lives, with the stack that made it and the phase
/// it was made in.
class MemoryHistory : public PhaseListener {
 public:
  /// What was recorded so far, as a pickle that pytorch.org/memory_viz opens.
  virtual std::string pickle() = 0;
};

}  // namespace ddprun
