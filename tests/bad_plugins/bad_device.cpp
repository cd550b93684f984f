// A device's library whose descriptor is good but for the one change that DDPRUN_CHANGE makes to
// `d`.
#include "ddprun/base/build_id.h"
#include "ddprun/device/device_library.h"

namespace {

constexpr ddprun::DeviceDescriptor descriptor() {
  ddprun::DeviceDescriptor d = {
      .size = sizeof(ddprun::DeviceDescriptor),
      .api_version = ddprun::kDeviceApiVersion,
      .build_id = DDPRUN_BUILD_ID,
      .name = "cuda",
      .probe = [](ddprun::DeviceProbe& probe) { probe.count = 1; },
      .create = [](int) -> ddprun::Device* { return nullptr; },
  };
  DDPRUN_CHANGE;
  return d;
}

}  // namespace

extern "C" const ddprun::DeviceDescriptor ddprun_device_v1;
const ddprun::DeviceDescriptor ddprun_device_v1 = descriptor();
