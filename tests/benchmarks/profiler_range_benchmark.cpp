// What a range, a label, a kernel's name and a mark cost where no profiler listens:
// build/release/bin/profiler_range_benchmark. Where one does: with
// NVTX_INJECTION64_PATH=build/release/tests/libnvtx_recorder.so and NVTX_RECORDER_FILE=/dev/null in
// the environment.
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <benchmark/benchmark.h>

#include <vector>

#include "ddprun/device/device.h"
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

/// As a step keeps one for each gradient.
void mark(benchmark::State& state) {
  std::vector<Mark> marks;
  marks.reserve(1 << 10);
  for (auto _ : state) {
    if (marks.size() == marks.capacity()) marks.clear();
    marks.push_back(cpu_device().mark());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(mark);
/// With three tensors, as a product has.
void kernel(benchmark::State& state) {
  const at::Tensor a = at::empty({1}), b = a, c = a;
  for (auto _ : state) {
    RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({a, b, c}));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(kernel);

}  // namespace
}  // namespace ddprun

BENCHMARK_MAIN();
