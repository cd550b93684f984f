// Reads and writes the states of PyTorch's default generators.
#include "ddprun/model/random_state.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <mutex>

namespace ddprun {

namespace {

std::vector<at::Generator> generators_of(c10::Device device) {
  std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(c10::kCPU)};
  if (device.is_cuda()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

std::vector<at::Tensor> states_of(c10::Device device) {
  std::vector<at::Tensor> states;
  for (at::Generator& generator : generators_of(device)) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

}  // namespace

RandomState::RandomState(c10::Device device) : device_(device), states_(states_of(device)) {}

bool RandomState::is_current() const {
  const std::vector<at::Tensor> now = states_of(device_);
  return std::equal(states_.begin(), states_.end(), now.begin(), now.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); });
}

void RandomState::restore() const {
  auto state = states_.begin();
  for (at::Generator& generator : generators_of(device_)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(*state++);
  }
}

}  // namespace ddprun
