// All-reduce (sum, float32) between the ranks of several hosts: gloo and hierarchical, measured in
// turns. One rank of a launch (torchrun's variables); rank 0 prints one JSON line a size.
//     tests/support/two_hosts.sh --rate 1gbit build/release/bin/hosts_all_reduce_benchmark
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <iostream>

#include "benchmarks/sides.h"
#include "ddprun/comm/launch_environment.h"
#include "ddprun/config/experiment.h"

namespace ddprun {
namespace {

using nlohmann::json;

void run_size(ProcessGroup& gloo, ProcessGroup& hierarchical, std::int64_t megabytes) {
  const std::int64_t count = megabytes * 1'000'000 / 64 * 16;
  const int rounds = megabytes >= 100 ? 7 : megabytes >= 10 ? 21 : 101;
  const at::Tensor own = gloo.allocate(count, at::kFloat);
  const at::Tensor shared = hierarchical.allocate(count, at::kFloat);
  const std::vector<test::Side> sides = {
      {"gloo", own, [&] { gloo.all_reduce(own, ReduceOp::sum, "gloo").wait(); }},
      {"hierarchical", shared,
       [&] { hierarchical.all_reduce(shared, ReduceOp::sum, "hierarchical").wait(); }}};
  const auto texts = gloo.all_gather_object(json(test::measure(gloo, sides, rounds)).dump());
  if (gloo.rank() != 0) return;
  json line = {{"benchmark", "hosts_all_reduce"},
               {"megabytes", megabytes},
               {"ranks", gloo.size()},
               {"rounds", rounds},
               {"sides", test::slowest(texts, sides)}};
  std::cout << line.dump() << std::endl;
}

}  // namespace
}  // namespace ddprun

int main() {
  using namespace ddprun;
  const auto info = rank_info_from_environment();
  if (!info) {
    std::cerr << "this is one rank of a launch: see the first lines of its source\n";
    return 2;
  }
  at::set_num_threads(1);
  const auto gloo = connect(*info, {.backend = BackendKind::gloo}, "gloo");
  const auto hierarchical = connect(*info, {.backend = BackendKind::hierarchical}, "hierarchical");
  for (const std::int64_t megabytes : {1, 10, 100}) run_size(*gloo, *hierarchical, megabytes);
  hierarchical->shutdown();
  gloo->shutdown();
  return 0;
}
