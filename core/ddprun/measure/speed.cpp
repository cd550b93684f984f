// Repeats short pieces of work for a fraction of a second and keeps the best.
#include "ddprun/measure/speed.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/measure/environment.h"
#include "ddprun/memory/mapped_memory.h"

namespace ddprun {

namespace {

/// Seconds of the fastest of the runs that fit into `limit_ns`. A first run is not counted.
double best_seconds(std::int64_t limit_ns, const std::function<void()>& work) {
  work();
  const std::int64_t begin_ns = now_ns();
  std::int64_t best_ns = limit_ns * 1000;
  for (std::int64_t now = begin_ns; now - begin_ns < limit_ns;) {
    work();
    const std::int64_t done = now_ns();
    best_ns = std::min(best_ns, std::max<std::int64_t>(done - now, 1));
    now = done;
  }
  return static_cast<double>(best_ns) * 1e-9;
}

}  // namespace

double copy_bytes_per_second(int threads) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  std::latch start(threads);
  std::vector<std::thread> workers;
  for (double& mine : seconds) {
    workers.emplace_back([&start, &mine] {
      const Mapping from = map_private(kBytes);
      const Mapping to = map_private(kBytes);
      std::memset(from.data(), 1, kBytes);
      std::memset(to.data(), 2, kBytes);
      start.arrive_and_wait();
      mine = best_seconds(200'000'000, [&] { std::memcpy(to.data(), from.data(), kBytes); });
    });
  }
  for (auto& worker : workers) worker.join();
  double rate = 0;
  for (const double each : seconds) rate += 2.0 * static_cast<double>(kBytes) / each;
  return rate;
}

HugePages huge_pages() {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  constexpr const char* kPages = "/proc/self/smaps_rollup";
  const std::int64_t before = proc_bytes(kPages, "AnonHugePages");
  const Mapping alone = map_private(kBytes);
  std::memset(alone.data(), 1, kBytes);
  const MemoryFile file = MemoryFile::create(kBytes, kBytes);
  const Mapping shared = file.map(kBytes);
  std::memset(shared.data(), 1, kBytes);
  return {.in_private_memory = proc_bytes(kPages, "AnonHugePages") > before,
          .in_shared_memory = proc_bytes(kPages, "ShmemPmdMapped") > 0};
}

}  // namespace ddprun
