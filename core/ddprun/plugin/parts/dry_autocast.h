// Autocast for tensors of device meta, which PyTorch's own passes by.
#pragma once

namespace ddprun {

/// While this thread's autocast of c10::kPrivateUse1 is on (AutocastGuard), the products of tensors
/// of device meta are in its dtype, and the cast of a weight is kept until forget(). No backend of
/// that name is in a process that has such tensors.
class DryAutocast {
 public:
  DryAutocast();
  ~DryAutocast();
  DryAutocast(const DryAutocast&) = delete;
  DryAutocast& operator=(const DryAutocast&) = delete;

  /// The weights' casts are stale.
  static void forget();

 private:
  const bool included_before_;
};

}  // namespace ddprun
