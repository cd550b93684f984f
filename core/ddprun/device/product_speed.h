// How fast a device multiplies matrices: a peak that it reaches, measured.
#pragma once

#include <c10/core/ScalarType.h>

namespace ddprun {

class Device;

/// Operations a second of ATen's product of two square matrices, the fastest of 0.3 s. On the CPU
/// their order is 1024 and torch's threads take part, on a GPU it is 8192.
double product_flops(Device& device, c10::ScalarType dtype);

}  // namespace ddprun
