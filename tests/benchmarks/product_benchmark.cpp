// The three products of a linear layer in each dtype, by the core's kernels and by PyTorch's
// libraries, at the shapes of the peer models: what one thread reaches. "step": all layers of
// peer-small in turn, so that operands and results come from memory, as in a step.
//     build/release/bin/product_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving --benchmark_report_aggregates_only
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/one_thread.h"
#include "ddprun/kernels/product/product.h"
#include "ddprun/model/fused_ops.h"

namespace ddprun {
namespace {

struct Layer {
  const char* name;
  std::int64_t rows, in, out;
};

constexpr Layer kLayers[] = {
    {"tiny/qkv", 512, 256, 768},         {"tiny/w1w3", 512, 256, 2048},
    {"tiny/w2", 512, 1024, 256},         {"tiny/head", 256, 256, 10000},
    {"peer-small/qkv", 512, 512, 1536},  {"peer-small/w1w3", 512, 512, 2688},
    {"peer-small/w2", 512, 1344, 512},   {"peer-small/head", 256, 512, 10000},
    {"laptop-70m/head", 256, 512, 32000}};

struct Operands {
  Operands(const Layer& layer, at::ScalarType dtype)
      : x(at::randn({layer.rows, layer.in}).to(dtype)),
        dy(at::randn({layer.rows, layer.out}).to(dtype)),
        weight(at::randn({layer.out, layer.in}).to(dtype)),
        y(at::empty_like(dy)),
        dx(at::empty_like(x)),
        gradient(at::empty({layer.out, layer.in})) {}
  at::Tensor x, dy, weight, y, dx, gradient;
};

using Product = std::function<void(Operands&)>;

void library_weight_gradient(Operands& o) {
  if (o.x.scalar_type() == at::kFloat) {
    at::mm_out(o.gradient, o.dy.t(), o.x);
    return;
  }
  const auto rows = [](const at::Tensor& matrix) {
    return kernels::Matrix<const at::BFloat16>{matrix.const_data_ptr<at::BFloat16>(),
                                               matrix.size(0), matrix.size(1), matrix.stride(0)};
  };
  const kernels::Matrix<float> c = {o.gradient.data_ptr<float>(), o.gradient.size(0),
                                    o.gradient.size(1), o.gradient.stride(0)};
  kernels::product_by_library(rows(o.dy).transposed(), rows(o.x), /*add=*/false, c);
}

const std::pair<const char*, Product> kProducts[] = {
    {"forward/core", [](Operands& o) { fused::linear_product_out(o.x, o.weight, o.y); }},
    {"forward/library", [](Operands& o) { at::mm_out(o.y, o.x, o.weight.t()); }},
    {"input_gradient/core", [](Operands& o) { fused::input_gradient_out(o.dy, o.weight, o.dx); }},
    {"input_gradient/library", [](Operands& o) { at::mm_out(o.dx, o.dy, o.weight); }},
    {"weight_gradient/core",
     [](Operands& o) { fused::weight_gradient(o.dy, o.x, false, o.gradient); }},
    {"weight_gradient/library", library_weight_gradient}};

/// The layers of peer-small for 512 tokens.
std::vector<Layer> layers_of_a_step() {
  std::vector<Layer> layers;
  for (int block = 0; block < 8; ++block) {
    layers.insert(layers.end(), {{"qkv", 512, 512, 1536},
                                 {"out", 512, 512, 512},
                                 {"w1w3", 512, 512, 2688},
                                 {"w2", 512, 1344, 512}});
  }
  layers.push_back({"head", 512, 512, 10000});
  return layers;
}

void run(benchmark::State& state, const std::vector<Layer>& layers, at::ScalarType dtype,
         const Product& product) {
  std::vector<Operands> operands;
  double operations = 0;
  for (const Layer& layer : layers) {
    operands.emplace_back(layer, dtype);
    operations += 2.0 * static_cast<double>(layer.rows * layer.in * layer.out);
  }
  for (auto _ : state) {
    for (Operands& each : operands) product(each);
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}

void register_each(const std::string& title, const std::vector<Layer>& layers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& [name, product] : kProducts) {
      const std::string whole = title + (dtype == at::kFloat ? "/fp32/" : "/bf16/") + name;
      benchmark::RegisterBenchmark(whole.c_str(), [layers, dtype,
                                                   &product](benchmark::State& state) {
        run(state, layers, dtype, product);
      })->Unit(benchmark::kMillisecond);
    }
  }
}

void register_all() {
  for (const Layer& layer : kLayers) register_each(layer.name, {layer});
  register_each("peer-small/step", layers_of_a_step());
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::register_all();
  return ddprun::run_on_one_thread(argc, argv);
}
