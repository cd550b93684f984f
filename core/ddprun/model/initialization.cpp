// Initial values of parameters: Box-Muller on counter-based bits, redrawn beyond 3 std.
#include "ddprun/model/initialization.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <numbers>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

namespace {

constexpr float kCut = 3.0F;
constexpr std::int64_t kGrain = 4096;  // values worth a thread's start

std::uint64_t stream_key(std::uint64_t seed, const std::string& name) {
  for (const char c : name) seed = counter_hash(seed, static_cast<unsigned char>(c));
  return seed;
}

// One standard normal value (the cosine half of Box-Muller) from two 23-bit uniforms, both exact in
// float.
float standard_normal(std::uint64_t bits) {
  const float radius_uniform = (static_cast<float>(bits >> 41) + 0.5F) * 0x1p-23F;
  const float angle_uniform = static_cast<float>(bits & 0x7FFFFF) * 0x1p-23F;
  return std::sqrt(-2.0F * std::log(radius_uniform)) *
         std::cos(2.0F * std::numbers::pi_v<float> * angle_uniform);
}

float cut_normal(std::uint64_t bits) {
  float value = standard_normal(bits);
  while (std::abs(value) > kCut) {  // 1 in 370
    bits = mix_bits(bits + 1);
    value = standard_normal(bits);
  }
  return value;
}

}  // namespace

at::Tensor truncated_normal(at::IntArrayRef shape, double std, std::uint64_t seed,
                            const std::string& name) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  auto* const values = tensor.mutable_data_ptr<float>();
  const std::uint64_t key = stream_key(seed, name);
  const auto scale = static_cast<float>(std);
  // Each value depends on its index alone, so any number of threads gives the same values.
  at::parallel_for(0, tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      values[i] = scale * cut_normal(counter_hash(key, static_cast<std::uint64_t>(i)));
    }
  });
  return tensor;
}

}  // namespace ddprun
