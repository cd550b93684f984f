// Listens to ATen's products, and reads off how much they computed.
#include "ddprun/dry/dry_device.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <utility>

#include "ddprun/kernels/operations.h"

namespace ddprun {

namespace {

/// All others call one of these. With each: which argument is the first operand.
constexpr std::array<std::pair<std::string_view, std::size_t>, 5> kProducts = {
    {{"aten::mm", 0},
     {"aten::bmm", 0},
     {"aten::_scaled_mm", 0},
     {"aten::addmm", 1},
     {"aten::baddbmm", 1}}};

/// a (..., m, k) and b (..., k, n)
double operations_of(const at::Tensor& a, const at::Tensor& b) {
  return 2 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  for (const auto& [name, first] : kProducts) {
    if (name != function.name()) continue;
    const auto inputs = function.inputs();
    if (inputs.size() < first + 2 || !inputs[first].isTensor()) continue;
    const at::Tensor& a = inputs[first].toTensor();
    if (a.is_meta()) kernels::dry_operations() += operations_of(a, inputs[first + 1].toTensor());
  }
  return nullptr;
}

}  // namespace

DryDevice::DryDevice()
    : products_(at::addGlobalCallback(at::RecordFunctionCallback(&count).needsInputs(true).scopes(
          {at::RecordScope::FUNCTION}))) {}

DryDevice::~DryDevice() { at::removeCallback(products_); }

double DryDevice::operations() const { return kernels::dry_operations(); }

Mark DryDevice::mark() {
  marks_.push_back(operations());
  return static_cast<Mark>(marks_.size());
}

}  // namespace ddprun
