// All-reduce (sum, float32) between processes of one host, each on its own core: shm in place, shm
// from outside memory, gloo, and the memory limit, measured in turns. One JSON line a size.
//     build/release/bin/all_reduce_benchmark [ranks=2] [MB...=1 10 100 1024]
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "benchmarks/sides.h"
#include "ddprun/base/mapped_memory.h"
#include "ddprun/measure/environment.h"
#include "negate.h"
#include "support/process_ranks.h"

namespace ddprun {
namespace {

using nlohmann::json;
using test::Side;

/// The memory of all ranks on which the limits are measured. It is mapped before the ranks are
/// forked.
struct Memory {
  Memory(int ranks, std::int64_t bytes) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t size = whole_pages(static_cast<std::size_t>(bytes));
      parts.push_back(MemoryFile::create(size, size).map(size));
    }
  }
  float* of(int rank) const { return reinterpret_cast<float*>(parts[rank].data()); }
  std::vector<Mapping> parts;
};

/// Does the least that an all-reduce must do, and nothing else: reads this rank's slice of all
/// ranks' memory, and writes it.
void read_and_write(const std::vector<float*>& parts, std::int64_t begin, std::int64_t end) {
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    negate_pair(end - begin, parts[i] + begin, parts[i + 1] + begin);
  }
  if (parts.size() % 2 == 1) negate(end - begin, parts.back() + begin);
}

/// Reads and writes as many bytes by memcpy: copies the slice of each rank's memory to that of the
/// next.
void copy_slices(const std::vector<float*>& parts, std::int64_t begin, std::int64_t end) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::memcpy(parts[(i + 1) % parts.size()] + begin, parts[i] + begin,
                static_cast<std::size_t>(end - begin) * sizeof(float));
  }
}

void run_size(ProcessGroup& shm, ProcessGroup& gloo, const Memory& memory, std::int64_t megabytes) {
  const std::int64_t count = megabytes * 1'000'000 / 64 * 16;
  const int rounds = megabytes >= 1000 ? 7 : megabytes >= 100 ? 21 : 101;
  const at::Tensor shared = shm.allocate(count, at::kFloat);
  const at::Tensor outside = at::zeros({count});
  const at::Tensor own = at::from_blob(memory.of(shm.rank()), {count}, at::kFloat);
  std::vector<float*> parts;
  for (int rank = 0; rank < shm.size(); ++rank) parts.push_back(memory.of(rank));
  const std::int64_t begin = count * shm.rank() / shm.size();
  const std::int64_t end = count * (shm.rank() + 1) / shm.size();
  const std::vector<Side> sides = {
      {"shm_in_place", shared, [&] { shm.all_reduce(shared, ReduceOp::sum, "in_place").wait(); }},
      {"read_and_write", own, [&] { read_and_write(parts, begin, end); }},
      {"shm_outside", outside, [&] { shm.all_reduce(outside, ReduceOp::sum, "outside").wait(); }},
      {"copy_slices", own, [&] { copy_slices(parts, begin, end); }},
      {"gloo", outside, [&] { gloo.all_reduce(outside, ReduceOp::sum, "gloo").wait(); }}};
  const auto texts = shm.all_gather_object(json(test::measure(shm, sides, rounds)).dump());
  if (shm.rank() != 0) return;
  json line = {{"benchmark", "all_reduce"},
               {"bytes", count * 4},
               {"ranks", shm.size()},
               {"rounds", rounds},
               {"sides", test::slowest(texts, sides)}};
  const auto ms = [&](const char* side) {
    return line["sides"][side]["median_ms"].template get<double>();
  };
  const double limit = std::min(ms("read_and_write"), ms("copy_slices"));
  line["in_place_to_gloo"] = ms("shm_in_place") / ms("gloo");
  line["outside_to_gloo"] = ms("shm_outside") / ms("gloo");
  line["limit_to_in_place"] = limit / ms("shm_in_place");
  std::cout << line.dump() << std::endl;
}

int run_rank(const RankInfo& info, const Memory& memory, const std::vector<std::int64_t>& sizes) {
  at::set_num_threads(1);
  pin_to_share(info.rank, info.world_size);
  const CommConfig shm_config{.backend = BackendKind::shm, .timeout_s = 60};
  const CommConfig gloo_config{.backend = BackendKind::gloo, .timeout_s = 60};
  const auto shm = connect(info, shm_config, "shm");
  RankInfo second = info;  // the store's socket is taken: another port
  second.listen_fd = -1;
  if (info.rank == 0) std::tie(second.listen_fd, second.master_port) = listen_on_free_port();
  second.master_port = std::stoi(shm->all_gather_object(std::to_string(second.master_port))[0]);
  const auto gloo = connect(second, gloo_config, "gloo");
  for (const std::int64_t size : sizes) run_size(*shm, *gloo, memory, size);
  gloo->shutdown();
  shm->shutdown();
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<std::int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {1, 10, 100, 1024};
  if (ranks < 1 || *std::min_element(sizes.begin(), sizes.end()) < 1) {
    std::cerr << "usage: all_reduce_benchmark [ranks] [MB...]\n";
    return 2;
  }
  const ddprun::Memory memory(ranks, *std::max_element(sizes.begin(), sizes.end()) * 1'000'000);
  const auto ends = ddprun::test::run_process_ranks(
      ranks, [&](const ddprun::RankInfo& info) { return ddprun::run_rank(info, memory, sizes); });
  return std::all_of(ends.begin(), ends.end(), [](int end) { return end == 0; }) ? 0 : 1;
}
