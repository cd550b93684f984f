// How fast a device multiplies matrices: a peak that it reaches, measured.
#pragma once

#include <c10/core/ScalarType.h>

namespace ddprun {

class Device;

/// Operations a second of a product of two square matrices, the fastest of 0.3 s. On the CPU their
/// order is 1024 and torch's threads take part, on a GPU it is 8192. Float32 and bfloat16 are
/// multiplied on the CPU by the core's product(), all else by ATen's: float16, whose product is
/// slow there, at order 256.
double product_flops(Device& device, c10::ScalarType dtype);

/// The same of float32 on the CPU, in a few milliseconds: order 384, the fastest of 3 ms. It says
/// how fast this machine is now beside another moment, not how fast it can be.
double short_product_flops();

}  // namespace ddprun
