// A tensor and its name, as named_parameters() of a torch::nn::Module gives them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace ddprun
