// The least that an all-reduce of float32 must do between processes of one host, each on its own
// core: two loops over memory that all of them map, measured in turns. One JSON line a size.
//     build/release/bin/copy_limit_benchmark [ranks=2] [MB...=1 10 100 1024]
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "benchmarks/sides.h"
#include "ddprun/memory/mapped_memory.h"
#include "ddprun/rank/affinity.h"
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

void run_size(ProcessGroup& group, const Memory& memory, std::int64_t megabytes) {
  const std::int64_t count = megabytes * 1'000'000 / 64 * 16;
  const int rounds = megabytes >= 1000 ? 7 : megabytes >= 100 ? 21 : 101;
  const at::Tensor own = at::from_blob(memory.of(group.rank()), {count}, at::kFloat);
  std::vector<float*> parts;
  for (int rank = 0; rank < group.size(); ++rank) parts.push_back(memory.of(rank));
  const std::int64_t begin = count * group.rank() / group.size();
  const std::int64_t end = count * (group.rank() + 1) / group.size();
  const std::vector<Side> sides = {
      {"read_and_write", own, [&] { read_and_write(parts, begin, end); }},
      {"copy_slices", own, [&] { copy_slices(parts, begin, end); }}};
  const auto texts = group.all_gather_object(json(test::measure(group, sides, rounds)).dump());
  if (group.rank() != 0) return;
  std::cout << json{{"benchmark", "copy_limit"},
                    {"bytes", count * 4},
                    {"ranks", group.size()},
                    {"rounds", rounds},
                    {"sides", test::slowest(texts, sides)}}
                   .dump()
            << std::endl;
}

int run_rank(const RankInfo& info, const Memory& memory, const std::vector<std::int64_t>& sizes) {
  at::set_num_threads(1);
  pin_to_share(info.rank, info.world_size);
  const auto group = connect(info, {.backend = BackendKind::shm, .timeout_s = 60}, "limit");
  for (const std::int64_t size : sizes) run_size(*group, memory, size);
  group->shutdown();
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
    std::cerr << "usage: copy_limit_benchmark [ranks] [MB...]\n";
    return 2;
  }
  const ddprun::Memory memory(ranks, *std::max_element(sizes.begin(), sizes.end()) * 1'000'000);
  const auto ends = ddprun::test::run_process_ranks(
      ranks, [&](const ddprun::RankInfo& info) { return ddprun::run_rank(info, memory, sizes); });
  return std::all_of(ends.begin(), ends.end(), [](int end) { return end == 0; }) ? 0 : 1;
}
