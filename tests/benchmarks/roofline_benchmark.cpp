// Measures the rates that a step is compared with: matrix products of the model's own shapes, large
// ones, and memory, by one thread on each of some cores at the same time. Prints one JSON line.
//     build/release/bin/roofline_benchmark ['{preset: peer-small}'] [batch=2] [fp32 | bf16]
//     [cores=1]
// The first word is a section `model:`.
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/config/config_node.h"
#include "ddprun/config/options_io.h"
#include "ddprun/measure/environment.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/model/fused_ops.h"
#include "ddprun/model/model_config.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// Waits until the threads of all cores come to the same measurement.
using Together = std::barrier<>;

double once_ms(const std::function<void()>& call) {
  const std::int64_t begin = now_ns();
  call();
  return to_ms(now_ns() - begin);
}

/// Milliseconds of a call: the first quartile among calls of `budget_ms` in all and three at least.
/// A floor is what the machine can do, and whatever interrupts a call only makes it longer. A call
/// that takes many times the budget is made once: where a CPU has no instructions for bfloat16,
/// ATen's products take minutes.
double call_ms(Together& together, double budget_ms, const std::function<void()>& call) {
  const double first = once_ms(call);  // oneDNN makes its kernel of a shape at the first call
  together.arrive_and_wait();
  if (first > 20 * budget_ms) return first;
  std::vector<double> times;
  for (double sum = 0; sum < budget_ms || times.size() < 3; sum += times.back()) {
    times.push_back(once_ms(call));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

at::Tensor random(std::int64_t rows, std::int64_t columns, at::ScalarType type) {
  return at::randn({rows, columns}).to(type);
}

/// Milliseconds of a linear layer's three products: forward, the input's gradient, the weight's
/// gradient. For the last it takes the faster of ATen's way and our own.
double linear_ms(Together& together, std::int64_t rows, std::int64_t in, std::int64_t out,
                 at::ScalarType type) {
  constexpr double kBudgetMs = 30;
  const at::Tensor x = random(rows, in, type);
  const at::Tensor dy = random(rows, out, type);
  const at::Tensor weight = random(out, in, type);
  // Results lie where earlier ones did, as in a step: new memory would be cleared page by page.
  at::Tensor y = at::empty_like(dy);
  at::Tensor dx = at::empty_like(x);
  at::Tensor gradient = random(out, in, at::kFloat);
  at::Tensor gradient_of_type = at::empty_like(weight);
  const double forward =
      call_ms(together, kBudgetMs, [&] { fused::linear_product_out(x, weight, y); });
  const double input =
      call_ms(together, kBudgetMs, [&] { fused::input_gradient_out(dy, weight, dx); });
  const double by_aten =
      call_ms(together, kBudgetMs, [&] { at::mm_out(gradient_of_type, dy.t(), x); });
  const double own =
      call_ms(together, kBudgetMs, [&] { fused::weight_gradient(dy, x, /*add=*/false, gradient); });
  return forward + input + std::min(by_aten, own);
}

/// Milliseconds of all products of the linear layers in one step of `rows` tokens, with q, k and v
/// as one matrix, and both halves of SwiGLU's first.
double linears_ms(Together& together, const ModelConfig& model, std::int64_t rows,
                  at::ScalarType type) {
  const std::int64_t d = model.d_model;
  const auto ms = [&](std::int64_t in, std::int64_t out) {
    return linear_ms(together, rows, in, out, type);
  };
  const double block = ms(d, 3 * d) + ms(d, d) + ms(d, 2 * model.d_ff) + ms(model.d_ff, d);
  return static_cast<double>(model.layers) * block + ms(d, model.vocab_size);
}

/// The best rate of large square products, by ATen or by the core's kernels.
double peak_gflops(Together& together, at::ScalarType type) {
  double best = 0;
  for (const std::int64_t size : {1024, 2048}) {
    const at::Tensor a = random(size, size, type);
    const at::Tensor b = random(size, size, type);
    at::Tensor c = at::empty_like(a);
    const double by_aten = call_ms(together, 200, [&] { at::mm_out(c, a, b); });
    const double own = call_ms(together, 200, [&] { fused::linear_product_out(a, b, c); });
    const double operations = 2.0 * static_cast<double>(size * size * size);
    best = std::max(best, 1e-6 * operations / std::min(by_aten, own));
  }
  return best;
}

constexpr std::int64_t kFloats = std::int64_t{1} << 24;  // of an array: 64 MiB

/// AdamW's traffic and hardly anything else: four streams are read, three of them written.
void seven_streams(const float* __restrict g, float* __restrict p, float* __restrict m,
                   float* __restrict v) {
  for (std::int64_t i = 0; i < kFloats; ++i) {
    p[i] += g[i];
    m[i] += g[i];
    v[i] += g[i];
  }
}

/// Bytes that are read or written, 10^9 a second: of AdamW's streams, and of memcpy.
std::pair<double, double> memory_gb_s(Together& together) {
  std::vector<at::Tensor> arrays;
  for (int i = 0; i < 4; ++i) arrays.push_back(allocate_private(kFloats, at::kFloat).fill_(1.0));
  std::vector<float*> at;
  for (const at::Tensor& array : arrays) at.push_back(array.data_ptr<float>());
  const double streams = call_ms(together, 200, [&] { seven_streams(at[0], at[1], at[2], at[3]); });
  const double copy =
      call_ms(together, 100, [&] { std::memcpy(at[0], at[1], kFloats * sizeof(float)); });
  const double bytes = static_cast<double>(kFloats) * sizeof(float) * 1e-6;
  return {7 * bytes / streams, 2 * bytes / copy};
}

void stay_on(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);  // not granted: the scheduler places the thread
}

json measure(Together& together, const ModelConfig& model, std::int64_t batch,
             at::ScalarType type) {
  at::set_num_threads(1);
  const double linears = linears_ms(together, model, batch * model.context_length, type);
  const double peak = peak_gflops(together, type);
  const auto [streams, copy] = memory_gb_s(together);
  return {{"linears_ms", linears},
          {"peak_gflops", peak},
          {"streams_gb_s", streams},
          {"copy_gb_s", copy}};
}

json run(const ModelConfig& model, std::int64_t batch, at::ScalarType type, std::size_t count) {
  const std::vector<int> usable = usable_cores();
  Together together(static_cast<std::ptrdiff_t>(count));
  std::vector<json> results(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      stay_on(usable[i % usable.size()]);
      results[i] = measure(together, model, batch, type);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {{"batch", batch},
          {"model",
           {{"vocab_size", model.vocab_size},
            {"context_length", model.context_length},
            {"d_model", model.d_model},
            {"d_ff", model.d_ff},
            {"layers", model.layers},
            {"parameters", model.parameter_count()}}},
          {"cores", results}};
}

/// Of a section `model:`. Throws ConfigError.
ModelConfig model_of(const std::string& section) {
  ModelConfig model;
  read_options(parse_yaml(section, "the first word"), "model",
               [&](Options& options) { declare_options(options, model); });
  return model;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto word = [&](std::size_t i, const char* otherwise) {
    return i < given.size() ? given[i] : std::string(otherwise);
  };
  const std::int64_t batch = std::atoll(word(1, "2").c_str());
  const std::string precision = word(2, "fp32");
  const int cores = std::atoi(word(3, "1").c_str());
  if (batch < 1 || cores < 1 || (precision != "fp32" && precision != "bf16")) {
    std::cerr << "usage: roofline_benchmark ['{preset: NAME}'] [batch] [fp32 | bf16] [cores]\n";
    return 2;
  }
  try {
    const auto type = precision == "bf16" ? at::kBFloat16 : at::kFloat;
    const auto model = ddprun::model_of(word(0, "{preset: peer-small}"));
    std::cout << ddprun::run(model, batch, type, static_cast<std::size_t>(cores)).dump()
              << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
