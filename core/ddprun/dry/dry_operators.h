// The operators that a step needs and PyTorch lacks on device meta.
#pragma once

#include <memory>

namespace ddprun {

/// As long as it lives, this process has them: look-ups of rows and their gradient, the scale of a
/// loss, collectives of c10d code, and autocast (whose own rules pass tensors of device meta by;
/// AutocastGuard switches on what is registered here). For a process of its own.
std::shared_ptr<void> dry_operators();

}  // namespace ddprun
