// A tensor and its name, as named_parameters() of a torch::nn::Module gives them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  /// The unit that it is used with (ParameterLayout); parameters of one unit follow each other.
  std::string unit = "model";
  /// True if fused kernels read it in float32, whatever dtype they compute in.
  bool read_in_float32 = false;
  /// With read_in_float32: true if their products read it too, in the dtype that they compute in.
  bool read_in_products = false;
  /// True if another unit uses it, too: a tied weight.
  bool used_elsewhere = false;
};

}  // namespace ddprun
