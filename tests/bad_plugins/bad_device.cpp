// Devices' descriptors that are good but for the one change that their case makes to `d`.
#include "ddprun/base/build_id.h"
#include "ddprun/device/device_library.h"

namespace {

constexpr ddprun::DeviceDescriptor good() {
  return {
      .library = {sizeof(ddprun::DeviceDescriptor), ddprun::kDeviceApiVersion, DDPRUN_BUILD_ID,
                  "cuda"},
      .probe = [](ddprun::DeviceProbe& probe) { probe.count = 1; },
      .create = [](int) -> ddprun::Device* { return nullptr; },
  };
}

}  // namespace

#define BAD_device(name, ...)                                \
  extern "C" const ddprun::DeviceDescriptor bad_##name;      \
  constinit const ddprun::DeviceDescriptor bad_##name = [] { \
    ddprun::DeviceDescriptor d = good();                     \
    __VA_ARGS__;                                             \
    return d;                                                \
  }();
#include "bad_devices.inc"
