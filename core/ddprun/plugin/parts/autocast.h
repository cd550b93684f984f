// Autocast during a forward: PyTorch's operators then choose the dtype they compute in.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "ddprun/plugin/precision.h"

namespace ddprun {

/// Does what entering and leaving `torch.autocast(device, dtype)` does. The switch belongs to the
/// thread, so ranks that are threads do not disturb each other. The cache of casts belongs to the
/// process; it is keyed by weight and locked. If one rank empties it, another casts a second time,
/// and no more. On device meta, which PyTorch's own autocast passes by, the products are in
/// `dtype`, too.
class AutocastGuard final : public Precision::Guard {
 public:
  AutocastGuard(c10::DeviceType device, c10::ScalarType dtype);
  ~AutocastGuard() override;
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  c10::ScalarType dtype_before_;
  bool dry_before_;
};

}  // namespace ddprun
