// Autocast, held during a forward, and put back as it was.
#include "ddprun/plugin/parts/autocast.h"

#include <ATen/autocast_mode.h>

namespace ddprun {

namespace autocast = at::autocast;

AutocastGuard::AutocastGuard(c10::DeviceType device, c10::ScalarType dtype)
    : device_(device == c10::kMeta ? c10::kPrivateUse1 : device),
      enabled_before_(autocast::is_autocast_enabled(device_)),
      dtype_before_(autocast::get_autocast_dtype(device_)) {
  if (device == c10::kMeta) dry_.emplace();
  autocast::set_autocast_enabled(device_, true);
  autocast::set_autocast_dtype(device_, dtype);
  autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  // Within the outermost guard each weight is cast once; the casts are stale after the optimizer's
  // step.
  if (autocast::decrement_nesting() == 0) {
    autocast::clear_cache();
    if (dry_) DryAutocast::forget();
  }
  autocast::set_autocast_enabled(device_, enabled_before_);
  autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace ddprun
