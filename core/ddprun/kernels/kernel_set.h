// Which kernels compute the transformer.
#pragma once

#include <array>

namespace ddprun {

/// `model.kernels`: fused kernels of our own, or PyTorch's operators one by one.
enum class KernelSet { fused, reference };
constexpr auto choice_names(KernelSet) { return std::array{"fused", "reference"}; }

}  // namespace ddprun
