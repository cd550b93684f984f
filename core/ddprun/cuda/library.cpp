// The one C symbol through which the core finds this library.
#include "ddprun/base/build_id.h"
#include "ddprun/cuda/cuda_device.h"

extern "C" __attribute__((visibility("default"))) const ddprun::DeviceDescriptor ddprun_device_v1;
const ddprun::DeviceDescriptor ddprun_device_v1 = {
    {sizeof(ddprun::DeviceDescriptor), ddprun::kDeviceApiVersion, DDPRUN_BUILD_ID, "cuda"},
    [](ddprun::DeviceProbe& probe) { ddprun::cuda::probe(probe); },
    [](int index) -> ddprun::Device* { return new ddprun::cuda::CudaDevice(index); }};
