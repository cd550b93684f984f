// What labels and scopes of memory cost where nothing records them:
// build/release/bin/memory_label_benchmark.
#include <benchmark/benchmark.h>

#include "ddprun/memory/memory_category.h"
#include "ddprun/memory/memory_label.h"

namespace ddprun {
namespace {

void unit(benchmark::State& state) {
  for (auto _ : state) {
    const MemoryLabel label("layers", 3);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(unit);

void operation(benchmark::State& state) {
  for (auto _ : state) {
    const MemoryLabel label("norm");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(operation);

void scope(benchmark::State& state) {
  for (auto _ : state) {
    const MemoryScope scope(MemoryCategory::gradients);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(scope);

void forward_again(benchmark::State& state) {
  for (auto _ : state) {
    const ForwardAgain again;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(forward_again);

}  // namespace
}  // namespace ddprun

BENCHMARK_MAIN();
