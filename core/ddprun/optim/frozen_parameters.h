// Parameters that are not trained: whole on each rank, with neither gradient nor moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_layout.h"
#include "ddprun/optim/parameter_slot.h"

namespace ddprun {

class FrozenParameters {
 public:
  /// The tensors stay the user's. They are converted, in place, to what trained parameters are in
  /// (BufferDtypes::model); for fused kernels there is a copy in the dtype of the products.
  FrozenParameters(const std::vector<NamedTensor>& parameters, const BufferDtypes& dtypes,
                   KernelSet kernels);

  int count() const { return static_cast<int>(parameters_.size()); }
  const std::string& name(int number) const { return parameters_[number].name; }
  const at::Tensor& parameter(int number) const { return parameters_[number].tensor; }
  /// How fused kernels read it. It has no memory for a gradient.
  const ParameterSlot& slot(int number) const { return slots_[number]; }

  /// Calls `agree` with each tensor, which it makes equal on all ranks; then the model reads them.
  void agree_on_values(const std::function<void(const at::Tensor&)>& agree);

  /// Bytes of all of them and their copies.
  std::int64_t bytes() const;

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<ParameterSlot> slots_;
};

}  // namespace ddprun
