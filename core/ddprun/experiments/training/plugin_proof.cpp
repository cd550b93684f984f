// Attention against float64, and the format of products from the bits that they lose.
#include "ddprun/experiments/training/plugin_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "ddprun/plugin/called.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "ddprun/proof/proof.h"

namespace ddprun {

namespace {

std::unique_ptr<Precision::Guard> guard_of(Precision& precision) {
  return called(precision, "forward_guard()", [&] { return precision.forward_guard(); });
}

/// A format of factors, and the most bits of a fraction that it keeps of those in kFormats.
struct Format {
  const char* names;  // as precisions declare it
  int bits;
};
constexpr std::array kFormats = {Format{"float32", 20}, Format{"tf32 or float16", 10},
                                 Format{"bfloat16", 7}, Format{"float8", 3}};

/// Whether linear layers tell 1 + 2^-bits from 1.
bool keeps(DataParallel& data_parallel, int bits) {
  constexpr std::int64_t kSize = 16;  // products in 8 bits need multiples
  const auto options = data_parallel.buffers().parameter(0).options().requires_grad(false);
  at::Tensor x = at::zeros({kSize, kSize}, options.dtype(at::kFloat));
  x.select(1, 0).fill_(1 + std::ldexp(1.0, -bits));
  x.select(1, 1).fill_(-1);
  const at::Tensor weight = at::ones({kSize, kSize}, options);
  const at::Tensor sums = data_parallel.linear(x.to(data_parallel.parameter_dtype()), weight);
  return sums.ne(0).all().item<bool>();
}

}  // namespace

Check check_attention(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                      std::uint64_t seed) {
  const ModelConfig& model = training(experiment).model;
  const bool backward = trainer.data_parallel().extent() != StepExtent::forward;
  Precision& precision = *trainer.plugins().precision;
  const PrecisionDtypes dtypes = precision.dtypes();
  const AttentionConfig config{
      .batch = micro_batch(experiment),
      .heads = model.heads,
      .length = model.context_length,
      .head_dim = model.head_dim(),
      .dtype = attention_type(dtypes.buffers.compute),
      .passes = backward ? AttentionPasses::forward_backward : AttentionPasses::forward};
  // TF32 has the bits of float16.
  const bool tf32 = dtypes.product_format() == "tf32";
  const double bound = error_bound(tf32 ? AttentionType::float16 : config.dtype);
  auto guard = guard_of(precision);
  const std::string own = find_wrong_attention(
      config, *trainer.plugins().attention, group.device(), bound, seed,
      [&guard] { guard.reset(); },  // backward is not under it
      trainer.last_batch().first_keys);
  return check_of_all(group, "attention_computed", own,
                      fmt::format("{} as in float64, to {:.2g}",
                                  backward ? "output and gradients" : "output", bound));
}

Check check_products(Trainer& trainer, ProcessGroup& group) {
  Precision& precision = *trainer.plugins().precision;
  const std::string declared = precision.dtypes().product_format();
  std::string found = "no known format";
  {
    const c10::AutoGradMode no_gradients(false);
    const auto guard = guard_of(precision);
    for (const Format& format : kFormats) {
      if (!keeps(trainer.data_parallel(), format.bits)) continue;
      found = format.names;
      break;
    }
  }
  const bool right = found.find(declared) != std::string::npos;
  const std::string own =
      right ? "" : fmt::format("linear layers multiply in {}, declared is {}", found, declared);
  return check_of_all(group, "products_format", own,
                      fmt::format("linear layers multiply in {}", declared));
}

}  // namespace ddprun
