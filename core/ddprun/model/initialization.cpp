// Initial values of parameters: a stream of normal values for each name.
#include "ddprun/model/initialization.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "ddprun/base/counter_hash.h"
#include "ddprun/kernels/rows/normal_values.h"
#include "ddprun/memory/private_memory.h"

namespace ddprun {

namespace {

constexpr std::int64_t kGrain = 4096;  // values worth a thread's start
constexpr std::int64_t kLarge = 1 << 20;

std::uint64_t stream_key(std::uint64_t seed, const std::string& name) {
  for (const char c : name) seed = counter_hash(seed, static_cast<unsigned char>(c));
  return seed;
}

}  // namespace

at::Tensor empty_parameter(at::IntArrayRef shape) {
  const std::int64_t elements = c10::multiply_integers(shape);
  if (elements < kLarge) return at::empty(shape, at::kFloat);
  const at::Tensor values = allocate_private(elements, at::kFloat);
  // Not by view(), which keeps its base: this memory would outlive the move to flat buffers.
  values.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return values;
}

at::Tensor truncated_normal(at::IntArrayRef shape, double std, std::uint64_t seed,
                            const std::string& name) {
  const at::Tensor tensor = empty_parameter(shape);
  auto* const values = tensor.mutable_data_ptr<float>();
  const std::uint64_t key = mix_bits(stream_key(seed, name));
  const auto scale = static_cast<float>(std);
  // Each value depends on its index alone, so any number of threads gives the same values.
  at::parallel_for(0, tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    kernels::write_normal_values(key, begin, end, scale, values + begin);
  });
  return tensor;
}

}  // namespace ddprun
