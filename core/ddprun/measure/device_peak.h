// How many operations a second a GPU's maker promises for matrix products: what MFU is a share of.
#pragma once

#include <string>

namespace ddprun {

/// Either a peak, or why there is none.
struct DevicePeak {
  double flops = 0;          ///< FLOP/s, dense (without structured sparsity); 0: none is known
  std::string refusal = {};  ///< one sentence
};

/// `device_name`: Device::name(), compared as a whole, so that a slice of a GPU (MIG) or a relative
/// of another speed is unknown. `dtype`: float32 (no tensor cores), tf32, bfloat16, float16 or
/// float8.
DevicePeak device_peak(const std::string& device_name, const std::string& dtype);

}  // namespace ddprun
