// Memory, proof and divergence of a run.
#include "ddprun/result/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddprun {

std::vector<PhaseMemory> highest_memory(const Run& run) {
  std::vector<PhaseMemory> out;
  for (const RankResult& rank : run.ranks) {
    for (const PhaseMemory& each : rank.memory_phases) {
      const auto known = std::find_if(out.begin(), out.end(),
                                      [&](const auto& o) { return o.phase == each.phase; });
      if (known == out.end()) {
        out.push_back(each);
      } else if (each.memory.peak_allocated_bytes > known->memory.peak_allocated_bytes) {
        *known = each;
      }
    }
  }
  return out;
}

Proof summarize_proof(const Run& run) {
  std::vector<std::vector<Check>> checks;
  for (const RankResult& rank : run.ranks) checks.push_back(rank.checks);
  return summarize_checks(checks);
}

std::string divergence(const Run& run) {
  if (!run.measured()) return {};
  for (const Quantity& quantity : run.kind->quantities()) {
    if (quantity.if_not_finite.empty()) continue;
    for (const RankResult& rank : run.ranks) {
      for (const Sample& sample : rank.samples) {
        const double value = sample[quantity];
        if (std::isfinite(value)) continue;
        return fmt::format("the {} was {} in step {} on rank {}: {}", quantity.key, value,
                           sample.step, rank.rank, quantity.if_not_finite);
      }
    }
  }
  return {};
}

}  // namespace ddprun
