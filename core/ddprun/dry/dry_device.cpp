// Listens to products, and adds up how much they would compute.
#include "ddprun/dry/dry_device.h"

#include <ATen/record_function.h>

#include <atomic>

#include "ddprun/profile/operator_work.h"

namespace ddprun {

namespace {

std::atomic<double>& counted() {
  static std::atomic<double> operations = 0;
  return operations;
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  counted() += product_flops_of(function);
  return nullptr;
}

}  // namespace

DryDevice::DryDevice()
    : products_(at::addGlobalCallback(at::RecordFunctionCallback(&count).needsInputs(true).scopes(
          {at::RecordScope::FUNCTION}))) {}

DryDevice::~DryDevice() { at::removeCallback(products_); }

double DryDevice::operations() const { return counted(); }

Mark DryDevice::mark() {
  marks_.push_back(operations());
  return static_cast<Mark>(marks_.size());
}

}  // namespace ddprun
