// What a range costs where no profiler listens: build/release/bin/profiler_range_benchmark. Where
// one does: with NVTX_INJECTION64_PATH=build/release/tests/libnvtx_recorder.so and
// NVTX_RECORDER_FILE=/dev/null in the environment.
#include <benchmark/benchmark.h>

#include "ddprun/measure/phase.h"

namespace ddprun {
namespace {

void phase(benchmark::State& state) {
  for (auto _ : state) {
    const PhaseScope scope(Phase::forward);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(phase);

void collective(benchmark::State& state) {
  const std::string label = "bucket 0";
  for (auto _ : state) {
    const ProfilerSpan span("all_reduce", label, 1 << 20);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(collective);

}  // namespace
}  // namespace ddprun

BENCHMARK_MAIN();
