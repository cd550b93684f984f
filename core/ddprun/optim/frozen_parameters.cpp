// Converts frozen parameters, and keeps the copies that products read.
#include "ddprun/optim/frozen_parameters.h"

namespace ddprun {

FrozenParameters::FrozenParameters(const std::vector<NamedTensor>& parameters,
                                   const BufferDtypes& dtypes, KernelSet kernels)
    : parameters_(parameters) {
  for (const NamedTensor& each : parameters_) {
    at::Tensor tensor = each.tensor;
    tensor.set_data(tensor.detach().to(dtypes.model).contiguous());
    ParameterSlot slot{.parameter = tensor, .compute = {}, .gradient = {}};
    const bool in_products = !each.read_in_float32 || each.read_in_products;
    if (kernels == KernelSet::fused && dtypes.compute != dtypes.model && in_products) {
      slot.compute = tensor.to(dtypes.compute);
    }
    slots_.push_back(std::move(slot));
  }
}

void FrozenParameters::agree_on_values(const std::function<void(const at::Tensor&)>& agree) {
  for (const ParameterSlot& slot : slots_) {
    agree(slot.parameter.detach());
    if (slot.compute.defined()) slot.compute.copy_(slot.parameter);
  }
}

std::int64_t FrozenParameters::bytes() const {
  std::int64_t sum = 0;
  for (const ParameterSlot& slot : slots_) {
    sum += static_cast<std::int64_t>(slot.parameter.nbytes());
    if (slot.compute.defined()) sum += static_cast<std::int64_t>(slot.compute.nbytes());
  }
  return sum;
}

}  // namespace ddprun
