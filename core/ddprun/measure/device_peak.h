// The peak rate of matrix products that a GPU's maker states; MFU is a share of it.
#pragma once

#include <string>

namespace ddprun {

/// A peak, or the reason why none is known.
struct DevicePeak {
  double flops = 0;          ///< FLOP/s, dense (without structured sparsity); 0: none is known
  std::string refusal = {};  ///< one sentence
};

/// `device_name` is Device::name(). It is compared as a whole, so a slice of a GPU (MIG) or a
/// similar model of another speed is unknown. `dtype` is float32 (no tensor cores), tf32, bfloat16,
/// float16 or float8.
DevicePeak device_peak(const std::string& device_name, const std::string& dtype);

}  // namespace ddprun
