// AdamW's pass beside torch's fused kernel, one thread: on the same memory, and as each program
// holds its parameters.
//     build/release/bin/adamw_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving --benchmark_report_aggregates_only
#include <ATen/Functions.h>
#include <ATen/ops/_fused_adamw.h>
#include <sys/mman.h>

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/one_thread.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/optimizer.h"
#include "ddprun/model/model_config.h"
#include "ddprun/optim/optimizer.h"

namespace ddprun {
namespace {

using kernels::bf16;

/// As many as peer-small's. No power of two: arrays so far apart share sets of the caches, and
/// every pass takes twice as long (AMD, Zen 3).
constexpr std::int64_t kParameters = 35151872;

/// An array of a model's size, far larger than any cache, in pages of 4 KiB or of 2 MiB.
at::Tensor large(bool huge_pages, at::ScalarType type = at::kFloat) {
  const at::Tensor tensor = at::empty({kParameters}, type);
  constexpr std::uintptr_t kPage = std::uintptr_t{1} << 21;
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.mutable_data_ptr());
  const std::uintptr_t begin = (first + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (first + tensor.nbytes()) / kPage * kPage;
  // Advice, which holds for pages that were never touched.
  madvise(reinterpret_cast<void*>(begin), end - begin,
          huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return tensor.zero_();
}

/// One set for each kind of page, shared by the sides.
struct AdamwArrays {
  explicit AdamwArrays(bool huge_pages)
      : parameter(large(huge_pages)),
        gradient(large(huge_pages).normal_()),
        mean(large(huge_pages)),
        square(large(huge_pages)),
        copy(large(huge_pages, at::kBFloat16)) {}
  at::Tensor parameter, gradient, mean, square, copy;
};
const AdamwArrays& adamw_arrays(const benchmark::State& state) {
  static auto* const small_pages = new AdamwArrays(false);
  static auto* const huge_pages = new AdamwArrays(true);
  return state.range(0) == 0 ? *small_pages : *huge_pages;
}

void run_adamw(benchmark::State& state, bool with_copy) {
  const AdamwArrays& arrays = adamw_arrays(state);
  const kernels::AdamwFactors factors{1.0f, 0.9999f, 0.1f, 0.95f, 0.05f, 0.9f, 1e-8f, 1e-3f};
  measure(state, kParameters * (with_copy ? 30 : 28), [&] {
    kernels::adamw_loop(factors, kParameters, data<float>(arrays.gradient),
                        data<float>(arrays.parameter), data<float>(arrays.mean),
                        data<float>(arrays.square), with_copy ? data<bf16>(arrays.copy) : nullptr);
  });
}
void adamw(benchmark::State& state) { run_adamw(state, false); }
void adamw_with_copy(benchmark::State& state) { run_adamw(state, true); }

void run_adamw_aten(benchmark::State& state, bool with_copy) {
  const AdamwArrays& arrays = adamw_arrays(state);
  const at::Tensor steps = at::full({}, 20.0);
  measure(state, kParameters * (with_copy ? 30 : 28), [&] {
    at::_fused_adamw_({arrays.parameter}, {arrays.gradient}, {arrays.mean}, {arrays.square}, {},
                      {steps}, 1e-3, 0.9, 0.95, 0.1, 1e-8, false, false);
    if (with_copy) arrays.copy.copy_(arrays.parameter);
  });
}
void adamw_aten(benchmark::State& state) { run_adamw_aten(state, false); }
void adamw_with_copy_aten(benchmark::State& state) { run_adamw_aten(state, true); }

/// The shapes of peer-small's parameters, as both programs hold them (q, k, v and w1, w3 are one
/// matrix each in PyTorch's).
std::vector<std::vector<std::int64_t>> parameter_shapes(bool fused) {
  const ModelConfig model = model_preset("peer-small");
  const std::int64_t d = model.d_model;
  const std::int64_t f = model.d_ff;
  std::vector<std::vector<std::int64_t>> shapes = {{model.vocab_size, d}};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    shapes.insert(shapes.end(), {{d}, {d}, {d, d}, {d, f}});
    if (fused) {
      shapes.insert(shapes.end(), {{3 * d, d}, {2 * f, d}});
    } else {
      shapes.insert(shapes.end(), {{d, d}, {d, d}, {d, d}, {f, d}, {f, d}});
    }
  }
  shapes.insert(shapes.end(), {{d}, {model.vocab_size, d}});
  return shapes;
}

/// The whole update as ddprun makes it: one pass over flat buffers in memory of their own.
void adamw_as_held(benchmark::State& state) {
  std::vector<NamedTensor> parameters;
  for (const auto& shape : parameter_shapes(/*fused=*/false)) {
    const at::Tensor tensor = at::randn(shape).requires_grad_();
    parameters.push_back({"p" + std::to_string(parameters.size()), tensor});
  }
  FlatBuffers buffers(parameters);
  buffers.gradients(buffers.all()).normal_();
  const auto optimizer = make_optimizer(OptimizerConfig{}, buffers);
  const auto update = [&] {
    optimizer->begin_step(1e-3);
    optimizer->update_all();
  };
  update();  // allocates the moments
  measure(state, buffers.parameter_count() * 28, update);
}
/// As PyTorch's: its fused kernel over a list of tensors, each from PyTorch's allocator. In Python
/// the optimizer's own bookkeeping comes on top.
void adamw_as_held_aten(benchmark::State& state) {
  std::vector<at::Tensor> parameters, gradients, means, squares, steps;
  std::int64_t count = 0;
  for (const auto& shape : parameter_shapes(/*fused=*/true)) {
    parameters.push_back(at::randn(shape));
    gradients.push_back(at::randn(shape));
    means.push_back(at::zeros(shape));
    squares.push_back(at::zeros(shape));
    steps.push_back(at::full({}, 20.0));
    count += parameters.back().numel();
  }
  measure(state, count * 28, [&] {
    at::_fused_adamw_(parameters, gradients, means, squares, {}, steps, 1e-3, 0.9, 0.95, 0.1, 1e-8,
                      false, false);
  });
}

/// out += 0.5 * x: the bandwidth that one thread gets when it hardly computes.
void memory_add(benchmark::State& state) {
  const AdamwArrays& arrays = adamw_arrays(state);
  measure(state, kParameters * 12, [&] {
    kernels::accumulate_scaled(kParameters, 0.5f, data<float>(arrays.gradient),
                               data<float>(arrays.mean));
  });
}

#define DDPRUN_PAGES(name) \
  BENCHMARK(name)->ArgName("huge_pages")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)

BENCHMARK(adamw_as_held)->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_as_held_aten)->Unit(benchmark::kMillisecond);
DDPRUN_PAGES(adamw);
DDPRUN_PAGES(adamw_aten);
DDPRUN_PAGES(adamw_with_copy);
DDPRUN_PAGES(adamw_with_copy_aten);
DDPRUN_PAGES(memory_add);

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) { return ddprun::run_on_one_thread(argc, argv); }
