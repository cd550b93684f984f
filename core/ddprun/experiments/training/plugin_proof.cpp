// Attention against float64, and the format of products from the bits that they lose.
#include "ddprun/experiments/training/plugin_proof.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <string_view>

#include "ddprun/base/hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/config/options_io.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/plugin/called.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "ddprun/proof/proof.h"

namespace ddprun {

namespace {

std::unique_ptr<Precision::Guard> guard_of(Precision& precision) {
  return called(precision, "forward_guard()", [&] { return precision.forward_guard(); });
}

/// A format of factors, the most bits of a fraction that it keeps of those in kFormats, and by how
/// much rounding lets products of random numbers be off, as a share of their size.
struct Format {
  const char* names;  // as precisions declare it
  int bits = 0;
  double error_bound = 0;
};
constexpr std::array kFormats = {Format{"float32", 20, 1e-4}, Format{"tf32 or float16", 10, 1e-2},
                                 Format{"bfloat16", 7, 3e-2}, Format{"float8", 3, 0.25}};
constexpr std::int64_t kProductSize = 16;  // products in 8 bits need multiples
constexpr std::int64_t kFewSamples = 2;

/// Whether linear layers tell 1 + 2^-bits from 1. On a GPU, large ones: cuBLAS multiplies small
/// matrices in float32 although TF32 is allowed.
bool keeps(DataParallel& data_parallel, int bits) {
  const auto options = data_parallel.buffers().parameter(0).options().requires_grad(false);
  const std::int64_t size = options.device().is_cpu() ? kProductSize : 64 * kProductSize;
  at::Tensor x = at::zeros({size, size}, options.dtype(at::kFloat));
  x.select(1, 0).fill_(1 + std::ldexp(1.0, -bits));
  x.select(1, 1).fill_(-1);
  const at::Tensor weight = at::ones({size, size}, options);
  const at::Tensor sums = data_parallel.linear(x.to(data_parallel.parameter_dtype()), weight);
  return sums.ne(0).all().item<bool>();
}

/// The sizes of the model's linear layers, (out, in), each once. Wide ones are narrower by a
/// multiple of kWide, so that a check takes little and what does not fill a vector is left.
std::set<std::vector<std::int64_t>> linear_sizes(const ModelConfig& model) {
  constexpr std::int64_t kWide = 128;
  std::set<std::vector<std::int64_t>> all;
  for (ModelParameter& each : model_parameters(model)) {
    if (!each.name.starts_with("layers.") || each.sizes.size() != 2) continue;
    for (std::int64_t& size : each.sizes) size = size > kWide ? kWide + size % kWide : size;
    all.insert(std::move(each.sizes));
  }
  return all;
}

/// By how much a linear layer of random numbers and these sizes, called as the model calls it, is
/// off, as a share of the size of the result; and each of its gradients, if steps have some.
/// `rows`: samples, and tokens of each.
double linear_error(DataParallel& data_parallel, Precision& precision,
                    const std::vector<std::int64_t>& sizes, std::array<std::int64_t, 2> rows,
                    std::uint64_t seed) {
  const at::Tensor& parameter = data_parallel.buffers().parameter(0);
  const auto generator = at::detail::createCPUGenerator(seed);
  const auto draw = [&](at::IntArrayRef of, at::ScalarType dtype) {
    return at::randn(of, generator).to(parameter.device(), dtype);
  };
  const bool backward = data_parallel.extent() != StepExtent::forward;
  const c10::AutoGradMode gradients(backward);
  const at::Tensor x =
      draw({rows[0], rows[1], sizes[1]}, data_parallel.parameter_dtype()).requires_grad_(true);
  const at::Tensor weight = draw(sizes, parameter.scalar_type()).requires_grad_(true);
  auto guard = guard_of(precision);
  const at::Tensor y = data_parallel.linear(x, weight);
  const auto leaf = [](const at::Tensor& from) { return from.detach().requires_grad_(true); };
  data_parallel.linear(leaf(2 * x), leaf(2 * weight));  // as a model's next layer, before backward
  guard.reset();                                        // backward is not under it
  const auto wide = [](const at::Tensor& each) {        // as a matrix
    return each.detach().to(at::kDouble).flatten(0, -2);
  };
  const auto error = [&](const at::Tensor& got, const at::Tensor& right) {
    return ((wide(got) - right).norm() / right.norm()).item<double>();
  };
  const double of_y = error(y, wide(x).mm(wide(weight).t()));
  if (!backward) return of_y;
  const at::Tensor dy = draw(y.sizes(), y.scalar_type());
  y.backward(dy);
  const std::array errors = {of_y, error(x.grad(), wide(dy).mm(wide(weight))),
                             error(weight.grad(), wide(dy).t().mm(wide(x)))};
  return at::tensor(errors).max().item<double>();  // of NaN, if there is one
}

constexpr double kFactorTolerance = 1e-5;  // factors are float32

/// What clipping multiplies gradients by. In float32, as the optimizer has it: a tiny one has few
/// digits there, or none.
double clip_factor(const Experiment& experiment, const StepScalars& scalars) {
  const double clip_norm = training(experiment).optimizer.clip_norm;
  if (clip_norm <= 0) return 1;
  return static_cast<float>(std::min(1.0, clip_norm / scalars.gradient_norm));
}

/// As text that is equal if and only if the numbers are, bit for bit.
std::string to_text(const StepScalars& scalars) {
  return fmt::format("learning rate {:.17g}, gradient norm {:.17g}, factor {:.17g}{}", scalars.lr,
                     scalars.gradient_norm, scalars.factor, scalars.skipped ? ", skipped" : "");
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
  const ErrorBounds bounds = error_bounds(tf32 ? AttentionType::float16 : config.dtype);
  auto guard = guard_of(precision);
  const std::string own = find_wrong_attention(
      config, *trainer.plugins().attention, group.device(), bounds, seed,
      [&guard] { guard.reset(); },  // backward is not under it
      trainer.last_batch().first_keys);
  return check_of_all(
      group, "attention_computed", own,
      fmt::format("{} as in float64, to {:.2g}, and all rows together to {:.2g}",
                  backward ? "output and gradients" : "output", bounds.largest, bounds.factor));
}

Check check_products(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                     std::uint64_t seed) {
  Precision& precision = *trainer.plugins().precision;
  const std::string declared = precision.dtypes().product_format();
  Format found = {"no known format"};
  {
    const c10::AutoGradMode no_gradients(false);
    const auto guard = guard_of(precision);
    for (const Format& format : kFormats) {
      if (!keeps(trainer.data_parallel(), format.bits)) continue;
      found = format;
      break;
    }
  }
  std::string own;
  if (std::string_view(found.names).find(declared) == std::string::npos) {
    own = fmt::format("linear layers multiply in {}, declared is {}", found.names, declared);
  } else {
    const ModelConfig& model = training(experiment).model;
    const std::array rows_of_run = {micro_batch(experiment), model.context_length};
    const auto all = linear_sizes(model);
    auto until_drawn = static_cast<std::int64_t>(seed % all.size());
    for (const auto& sizes : all) {
      const auto rows = until_drawn-- == 0 ? rows_of_run : std::array{kFewSamples, kProductSize};
      const double error = linear_error(trainer.data_parallel(), precision, sizes, rows, seed);
      if (error <= found.error_bound) continue;
      own = fmt::format("a linear layer {} is off by {:.2g}, {:.2g} is allowed in {}",
                        fmt::join(sizes, " x "), error, found.error_bound, declared);
    }
  }
  return check_of_all(group, "products_format", own,
                      fmt::format("linear layers multiply in {}", declared));
}

double scaled_back(const Experiment& experiment, const StepScalars& scalars) {
  return scalars.factor / clip_factor(experiment, scalars);
}

Check check_scaled_back(const Experiment& experiment, const StepScalars& scalars,
                        ProcessGroup& group, const std::vector<double>& scaled_by) {
  const double back = scaled_back(experiment, scalars);
  std::string own;
  for (const double scale : scaled_by) {
    if (!(std::abs(scale * back - 1) > kFactorTolerance)) continue;  // of a loss that is NaN: NaN
    own =
        fmt::format("the loss was multiplied by {:.6g}, and its gradients by {:.6g}", scale, back);
  }
  return check_of_all(
      group, "loss_scaled_back", own,
      fmt::format("gradients of a loss times {:.6g} were divided by it", scaled_by.back()));
}

Check check_skipped(const FlatBuffers& buffers, ProcessGroup& group) {
  const bool overflowed = std::ranges::any_of(buffers.owned(), [&](const Range& own) {
    if (own.size() == 0) return false;
    const auto [least, largest] = at::aminmax(buffers.mean(own));
    return !std::isfinite(least.item<float>()) || !std::isfinite(largest.item<float>());
  });
  const bool right = !first_of_all(group, overflowed ? "overflowed" : "").empty();
  return make_check("loss_scaled_back", right,
                    right ? "a skipped step's gradients overflowed"
                          : "the step was skipped, as if gradients had overflowed, and none did");
}

Batch eighth_of(const Batch& batch) {
  const std::int64_t count = batch.ids.size(0), time = batch.ids.size(1);
  const std::int64_t samples = std::max<std::int64_t>(1, count / 8);
  const std::int64_t tokens = std::clamp(count * time / 8, std::min<std::int64_t>(64, time), time);
  const auto part = [&](const at::Tensor& all) {
    return all.defined() ? all.narrow(0, 0, samples).narrow(1, 0, tokens).contiguous() : all;
  };
  return {part(batch.ids), part(batch.targets), part(batch.first_keys), batch.divisor};
}

std::string find_other_options(const Experiment& experiment, const Trainer& trainer,
                               const std::string& products) {
  const RunPlugins& plugins = trainer.plugins();
  const std::vector<std::pair<PluginKind, Plugin*>> all = {
      {PluginKind::strategy, plugins.strategy.get()},
      {PluginKind::precision, plugins.precision.get()},
      {PluginKind::attention, plugins.attention.get()}};
  for (const auto& [kind, plugin] : all) {
    const ConfigNode now = write_options([&](Options& o) { plugin->declare_options(o); });
    for (const auto& [key, value] : now.map) {
      const ConfigNode* const told = experiment.plugin(kind).options.find(key);
      if (told == nullptr || compact(*told) == compact(value)) continue;
      return fmt::format("{} of {} is {}, and was told {}", key, plugin->called, compact(value),
                         compact(*told));
    }
  }
  const std::string format = plugins.precision->dtypes().product_format();
  if (format == products) return {};
  return fmt::format("{} declares products in {}, and declared {} at first",
                     plugins.precision->called, format, products);
}

std::string find_other_scalars(const Experiment& experiment, Trainer& trainer,
                               const StepScalars& scalars, std::int64_t updates) {
  const Optimizer& optimizer = trainer.data_parallel().optimizer();
  if (optimizer.lr() != scalars.lr) {
    return fmt::format("the optimizer's learning rate is {:.6g}, and {:.6g} by its schedule",
                       optimizer.lr(), scalars.lr);
  }
  const std::vector<Range>& owned = trainer.data_parallel().buffers().owned();
  const bool owns = std::ranges::any_of(owned, [](const Range& own) { return own.size() > 0; });
  const std::int64_t counted = owns ? optimizer.updates() : updates;
  if (counted != updates) {
    return fmt::format("the optimizer counts {}, and made {}", ddprun::counted(counted, "update"),
                       updates);
  }
  const double clip = clip_factor(experiment, scalars);
  if (trainer.plugins().precision->loss_scaler() != nullptr ||
      !(std::abs(scalars.factor - clip) > kFactorTolerance * clip)) {
    return {};
  }
  return fmt::format("gradients were multiplied by {:.6g}, and by {:.6g} to clip them",
                     scalars.factor, clip);
}

std::pair<Check, std::int64_t> check_scalars(ProcessGroup& group,
                                             const std::vector<StepScalars>& own) {
  const std::string name = "step_scalars_equal";
  const std::vector<std::string> texts = mapped(own, to_text);
  const std::string hash = fmt::format("{:016x}", hash64(list_text(texts, "\n")));
  const auto hashes = group.all_gather_object(hash);
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) {
    return {{name, CheckStatus::passed,
             fmt::format("learning rate, gradient norm and clip factor are equal on {} in each "
                         "of {}",
                         all_counted(std::ssize(hashes), "rank"),
                         ddprun::counted(std::ssize(own), "step"))},
            0};
  }
  const auto all = all_gather_values(group, texts);
  for (std::size_t step = 0; step < texts.size(); ++step) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank][step] == all[0][step]) continue;
      return {{name, CheckStatus::failed,
               fmt::format("rank 0 has {}, rank {} has {}", all[0][step], rank, all[rank][step])},
              static_cast<std::int64_t>(step)};
    }
  }
  return {{name, CheckStatus::failed, "no step differs alone"}, 0};
}

}  // namespace ddprun
