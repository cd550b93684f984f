// What a device's memory gives: a copy, and AdamW's pass beside it, in turn. One JSON line.
//     build/release/bin/device_memory_benchmark [cuda | cpu] [megabytes of an array=1000]
//     [rounds=10]
#include <ATen/Functions.h>

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/device/device_library.h"
#include "ddprun/optim/optimizer.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// Something whose time is that of the bytes that it reads and writes.
struct Pass {
  std::string name;
  double bytes;
  std::function<void()> run;
};

constexpr int kCalls = 10;  // between two marks, so that their own time is small beside

/// 10^9 bytes a second of each pass, one value a round. The passes take turns.
json rates(Device& device, const std::vector<Pass>& passes, int rounds) {
  json rates = json::object();
  for (int round = -1; round < rounds; ++round) {  // the first is a warm-up
    for (const Pass& pass : passes) {
      const Mark begin = device.mark();
      for (int call = 0; call < kCalls; ++call) pass.run();
      const Mark end = device.mark();
      const double ms = to_ms(device.time_of(end) - device.time_of(begin));
      if (round >= 0) rates[pass.name].push_back(kCalls * pass.bytes * 1e-6 / ms);
    }
  }
  return rates;
}

json measure(const std::string& name, std::int64_t megabytes, int rounds) {
  const auto device = open_device(choice_of<DeviceKind>(name).value(), 0);
  const auto options = at::TensorOptions(device->torch_device()).dtype(at::kFloat);
  const std::int64_t elements = megabytes * 1'000'000 / 4;
  const at::Tensor from = at::ones({elements}, options);
  const at::Tensor to = at::zeros({elements}, options);

  // As a run holds them: parameters and gradients in flat buffers, moments beside them.
  const at::Tensor parameter = at::ones({elements}, options).requires_grad_();
  FlatBuffers buffers({{"parameter", parameter}});
  buffers.gradients(buffers.all()).fill_(1e-3);
  const auto optimizer = make_optimizer(OptimizerConfig{}, buffers);
  const auto update = [&] {
    optimizer->begin_step(1e-3);
    optimizer->update_all();
  };
  const double bytes = 4.0 * static_cast<double>(elements);
  // AdamW reads gradient, parameter and two moments, and writes the last three.
  const json found =
      rates(*device, {{"copy", 2 * bytes, [&] { to.copy_(from); }}, {"adamw", 7 * bytes, update}},
            rounds);
  json facts = json::object();
  for (const auto& [key, value] : device->describe()) facts[key] = value;
  return {{"device", name},
          {"facts", facts},
          {"array_bytes", static_cast<std::int64_t>(bytes)},
          {"gb_s", found}};
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cuda";
  const std::int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 1000;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 10;
  if (megabytes < 1 || rounds < 1) {
    std::cerr << "usage: device_memory_benchmark [cuda | cpu] [megabytes] [rounds]\n";
    return 2;
  }
  try {
    std::cout << ddprun::measure(device, megabytes, rounds).dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
