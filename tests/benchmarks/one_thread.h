// What benchmarks of kernels on one thread share.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <benchmark/benchmark.h>

namespace ddprun {

template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.data_ptr<T>();
}

/// Times `body`, which moves that many bytes if each operand is read or written once.
template <class Body>
void measure(benchmark::State& state, std::int64_t bytes, const Body& body) {
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

/// Runs what the command line asks for. Returns the exit status.
inline int run_on_one_thread(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(1);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace ddprun
