// The least that an all-reduce of float32 must do between processes of one host, each on its own
// core: two loops over memory that all of them map, measured in turns. One JSON line a size.
//     build/release/bin/copy_limit_benchmark [ranks=2] [MB...=1 10 100 1024]
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/memory/mapped_memory.h"
#include "ddprun/rank/affinity.h"
#include "negate.h"
#include "support/process_ranks.h"

namespace ddprun {
namespace {

using nlohmann::json;

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

constexpr std::pair<const char*, decltype(&copy_slices)> kSides[] = {
    {"read_and_write", read_and_write}, {"copy_slices", copy_slices}};

/// (sides, rounds): milliseconds of the slowest rank, because a collective is as slow as that. The
/// sides take turns. Each rank writes its `count` elements before each call, as backward writes
/// gradients.
at::Tensor measure(ProcessGroup& group, const std::vector<float*>& parts, std::int64_t count,
                   int rounds) {
  const at::Tensor own = at::from_blob(parts[group.rank()], {count}, at::kFloat);
  const std::int64_t first = count * group.rank() / group.size();
  const std::int64_t end = count * (group.rank() + 1) / group.size();
  at::Tensor times = at::empty({std::ssize(kSides), rounds}, at::kDouble);
  for (int round = -1; round < rounds; ++round) {  // the first is a warm-up
    for (std::int64_t side = 0; side < std::ssize(kSides); ++side) {
      own.fill_(1.0);
      group.barrier();
      const std::int64_t begin = now_ns();
      kSides[side].second(parts, first, end);
      if (round >= 0) times[side][round] = to_ms(now_ns() - begin);
    }
  }
  group.all_reduce(times, ReduceOp::max, "times").wait();
  return times;
}

json summary(const at::Tensor& times) {
  const at::Tensor sorted = std::get<0>(times.sort());
  const auto at = [&](std::int64_t i) { return sorted[i].item<double>(); };
  return {{"median_ms", at(times.size(0) / 2)}, {"min_ms", at(0)}, {"max_ms", at(-1)}};
}

void run_size(ProcessGroup& group, const Memory& memory, std::int64_t megabytes) {
  const std::int64_t count = megabytes * 1'000'000 / 64 * 16;
  const int rounds = megabytes >= 1000 ? 7 : megabytes >= 100 ? 21 : 101;
  std::vector<float*> parts;
  for (int rank = 0; rank < group.size(); ++rank) parts.push_back(memory.of(rank));
  const at::Tensor times = measure(group, parts, count, rounds);
  if (group.rank() != 0) return;
  json sides;
  for (std::int64_t i = 0; i < std::ssize(kSides); ++i) sides[kSides[i].first] = summary(times[i]);
  std::cout << json{{"benchmark", "copy_limit"},
                    {"bytes", count * 4},
                    {"ranks", group.size()},
                    {"rounds", rounds},
                    {"sides", sides}}
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
