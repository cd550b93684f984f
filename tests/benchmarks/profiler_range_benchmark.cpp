// What a range, a label, a kernel's name and a mark cost where no profiler listens, and labels and
// scopes of memory where nothing records them:
// build/release/bin/profiler_range_benchmark. Where one does: with
// NVTX_INJECTION64_PATH=build/release/tests/libnvtx_recorder.so and NVTX_RECORDER_FILE=/dev/null in
// the environment.
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <benchmark/benchmark.h>

#include <vector>

#include "ddprun/device/device.h"
#include "ddprun/measure/phase.h"
#include "ddprun/memory/memory_category.h"
#include "ddprun/memory/memory_label.h"

namespace ddprun {
namespace {

/// Makes an object and lets go of it.
template <class Make>
void held(benchmark::State& state, const Make& make) {
  for (auto _ : state) {
    const auto scope = make();
    benchmark::ClobberMemory();
  }
}
const std::string kLabel = "bucket 0";
BENCHMARK_CAPTURE(held, phase, [] { return PhaseScope(Phase::forward); });
BENCHMARK_CAPTURE(held, collective, [] { return ProfilerSpan("all_reduce", kLabel, 1 << 20); });
BENCHMARK_CAPTURE(held, unit_label, [] { return MemoryLabel("layers", 3); });
BENCHMARK_CAPTURE(held, operation_label, [] { return MemoryLabel("norm"); });
BENCHMARK_CAPTURE(held, memory_scope, [] { return MemoryScope(MemoryCategory::gradients); });
BENCHMARK_CAPTURE(held, forward_again, [] { return ForwardAgain(); });

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
