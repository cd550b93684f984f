// Attention implementations beside each other, forward and backward, at the peer models' sizes:
// what one thread reaches.
//     build/release/bin/attention_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving --benchmark_report_aggregates_only
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>

#include "ddprun/config/registry.h"
#include "support/experiments.h"

namespace ddprun {
namespace {

struct Shape {
  const char* model;
  std::int64_t batch, heads, time, head_dim;
};

constexpr Shape kShapes[] = {
    {"tiny", 4, 4, 128, 64}, {"peer-small", 2, 8, 256, 64}, {"laptop-70m", 1, 8, 512, 64}};

Attention& implementation(const std::string& name) {
  static const auto* const registry = new PluginRegistry({test::plugin_folder()});
  static std::map<std::string, std::shared_ptr<Attention>> loaded;
  auto& attention = loaded[name];
  if (!attention) {
    PluginChoice choice;
    choice.kind = PluginKind::attention;
    choice.name = name;
    attention = make_attention(*registry, choice);
  }
  return *attention;
}

void attention(benchmark::State& state, const std::string& name, const Shape& shape,
               at::ScalarType dtype) {
  const auto input = [&] {  // (batch, heads, time, head_dim) as projections lay it out
    return at::randn({shape.batch, shape.time, shape.heads, shape.head_dim})
        .to(dtype)
        .transpose(1, 2);
  };
  const at::Tensor q = input().requires_grad_();
  const at::Tensor k = input().requires_grad_();
  const at::Tensor v = input().requires_grad_();
  const at::Tensor dy = input();
  for (auto _ : state) {
    for (const at::Tensor* tensor : {&q, &k, &v}) tensor->mutable_grad().reset();
    implementation(name).forward(q, k, v, {.causal = true}).backward(dy);
  }
}

void register_all() {
  for (const auto& [dtype, dtype_name] : {std::pair{at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}}) {
    for (const Shape& shape : kShapes) {
      for (const char* name : {"eager", "sdpa", "tiled"}) {
        const std::string title =
            std::string("attention/") + shape.model + "/" + dtype_name + "/" + name;
        benchmark::RegisterBenchmark(title.c_str(), [name = std::string(name), shape,
                                                     dtype = dtype](benchmark::State& state) {
          attention(state, name, shape, dtype);
        })->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  at::set_num_threads(1);
  ddprun::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
