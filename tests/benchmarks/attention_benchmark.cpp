// Attention implementations beside each other, forward and backward, at the peer models' sizes, and
// the matrix products of those models: what one thread reaches.
//     build/release/bin/attention_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving --benchmark_report_aggregates_only
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>

#include "ddprun/plugin/registry.h"
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

/// (512, in) x (in, out): tokens of all three models, and the widths of peer-small.
void product(benchmark::State& state, std::int64_t in, std::int64_t out, at::ScalarType dtype) {
  const at::Tensor x = at::randn({512, in}).to(dtype);
  const at::Tensor weight = at::randn({out, in}).to(dtype);
  at::Tensor y = at::empty({512, out}, x.options());
  for (auto _ : state) at::mm_out(y, x, weight.t());
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * 512 * static_cast<double>(in * out),
                                                benchmark::Counter::kIsIterationInvariantRate);
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
    for (const auto& [in, out] : {std::pair{512, 1536}, {512, 2688}, {1344, 512}, {512, 10000}}) {
      const std::string title =
          "product/" + std::to_string(in) + "x" + std::to_string(out) + "/" + dtype_name;
      benchmark::RegisterBenchmark(title.c_str(), [in = in, out = out,
                                                   dtype = dtype](benchmark::State& state) {
        product(state, in, out, dtype);
      })->Unit(benchmark::kMillisecond);
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
