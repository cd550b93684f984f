// A device's library whose descriptor is good but for the one change that DDPRUN_CHANGE makes to
// `d`.
#include "ddprun/base/build_id.h"
#include "ddprun/device/device_library.h"

namespace {

constexpr ddprun::DeviceDescriptor descriptor() {
  ddprun::DeviceDescriptor d = {
      .library = {sizeof(ddprun::DeviceDescriptor), ddprun::kDeviceApiVersion, DDPRUN_BUILD_ID,
                  "cuda"},
      .probe = [](ddprun::DeviceProbe& probe) { probe.count = 1; },
      .create = [](int) -> ddprun::Device* { return nullptr; },
  };
  DDPRUN_CHANGE;
  return d;
}

}  // namespace

extern "C" const ddprun::DeviceDescriptor ddprun_device_v1;
const ddprun::DeviceDescriptor ddprun_device_v1 = descriptor();
