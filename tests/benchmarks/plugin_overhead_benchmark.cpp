// What calling a strategy through a shared library costs, as a share of a step of the `tiny` model.
//     build/release/bin/plugin_overhead_benchmark --benchmark_repetitions=5
//     --benchmark_enable_random_interleaving
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "ddprun/config/registry.h"
#include "ddprun/experiments/training/trainer.h"
#include "support/experiments.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

constexpr const char* kPluginCalls = "calls_of_one_step/through_the_plugin";
constexpr const char* kDirectCalls = "calls_of_one_step/direct";
constexpr const char* kTinyStep = "tiny_step";

const PluginRegistry& registry() {
  static const auto* const instance = new PluginRegistry({test::plugin_folder()});
  return *instance;
}

Experiment tiny_experiment() {
  Experiment experiment = test::small_experiment(1);
  training(experiment).model = model_preset("tiny");
  training(experiment).train.global_batch = 4;
  experiment.plugin(PluginKind::strategy).name = "none";
  experiment.plugin(PluginKind::precision).name = "fp32";
  experiment.plugin(PluginKind::attention).name = "sdpa";
  return experiment;
}

/// Does what the control strategy does, known to the compiler.
struct Direct {
  void on_gradient(int index) { benchmark::DoNotOptimize(index); }
  void finish_backward() { benchmark::ClobberMemory(); }
};

int parameter_tensors() { return 3 + 9 * static_cast<int>(model_preset("tiny").layers); }

void direct_calls(benchmark::State& state) {
  Direct strategy;
  for (auto _ : state) {
    for (int index = 0; index < parameter_tensors(); ++index) strategy.on_gradient(index);
    strategy.finish_backward();
  }
}

void plugin_calls(benchmark::State& state) {
  const auto strategy = make_strategy(registry(), tiny_experiment().plugin(PluginKind::strategy));
  for (auto _ : state) {
    for (int index = 0; index < parameter_tensors(); ++index) strategy->on_gradient(index);
    strategy->finish_backward();
  }
}

void tiny_step(benchmark::State& state) {
  at::set_num_threads(1);
  test::run_ranks(1, [&](ProcessGroup& group) {
    const Experiment experiment = tiny_experiment();
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    std::int64_t index = 0;
    trainer.step(index++);
    for (auto _ : state) trainer.step(index++);
  });
}

BENCHMARK(direct_calls)->Name(kDirectCalls);
BENCHMARK(plugin_calls)->Name(kPluginCalls);
BENCHMARK(tiny_step)->Name(kTinyStep)->Unit(benchmark::kMillisecond);

/// Prints as usual, and at the end the ratio of the medians.
class Reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      // Each repetition, or their medians alone with --benchmark_report_aggregates_only.
      const bool counts = run.run_type == Run::RT_Iteration || run.aggregate_name == "median";
      // No case here can fail: Google Benchmark 1.8 renamed how a run says so.
      if (!counts) continue;
      seconds_[run.run_name.function_name].push_back(run.real_accumulated_time /
                                                     static_cast<double>(run.iterations));
    }
    ConsoleReporter::ReportRuns(runs);
  }

  void Finalize() override {
    const double extra = median(kPluginCalls) - median(kDirectCalls);
    const double step = median(kTinyStep);
    if (step > 0.0) {
      std::printf("plugin indirection: %.0f ns of a %.1f ms step = %.5f %%\n", extra * 1e9,
                  step * 1e3, 100.0 * extra / step);
    }
  }

 private:
  double median(const std::string& name) {
    auto& values = seconds_[name];
    if (values.empty()) return 0.0;
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  std::map<std::string, std::vector<double>> seconds_;
};

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ddprun::Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}
