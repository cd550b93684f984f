// Memory, proof and divergence of a run.
#include "ddprun/result/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// Sizes of the work, such as tokens: each a number, and none below zero.
std::string impossible_work(const nlohmann::json& work) {
  if (!work.is_object()) return "work is no mapping";
  for (const auto& [key, size] : work.items()) {
    if (!size.is_number() || size.get<double>() < 0) {
      return fmt::format("work.{} is {}", key, size.dump());
    }
  }
  return {};
}

std::string impossible_sample(const Sample& sample) {
  const Quantity& time = sample.kind().quantities().front();
  if (!std::isfinite(sample[time]) || sample[time] <= 0) {
    return fmt::format("{} is {}", time.key, sample[time]);
  }
  for (const Quantity& quantity : sample.kind().quantities()) {
    if (!quantity.measured()) continue;
    const double value = sample.find(quantity).value_or(0);
    const bool size = quantity.written == Written::integer;
    if ((size && value < 0) || (!quantity.unit.empty() && !std::isfinite(value))) {
      return fmt::format("{} is {}", quantity.key, value);
    }
  }
  return {};
}

}  // namespace

std::string impossible(const Run& run) {
  if (const std::string flaw = impossible_work(run.work); !flaw.empty()) return flaw;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const RankResult& rank = run.ranks[r];
    if (rank.rank != static_cast<int>(r)) {
      return fmt::format("rank {} stands in place {}", rank.rank, r);
    }
    if (rank.peak_resident_bytes < 0) return fmt::format("rank {} used less than no memory", r);
    for (const Sample& sample : rank.samples) {
      const std::string flaw = impossible_sample(sample);
      if (!flaw.empty()) return fmt::format("{} in step {} of rank {}", flaw, sample.step, r);
    }
  }
  return {};
}

std::vector<PhaseMemory> highest_memory(const Run& run) {
  std::vector<PhaseMemory> out;
  for (const RankResult& rank : run.ranks) {
    for (const PhaseMemory& each : rank.memory_phases) {
      const auto known = std::ranges::find(out, each.phase, &PhaseMemory::phase);
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
  return summarize_checks(mapped(run.ranks, &RankResult::checks));
}

std::string divergence(const Run& run) {
  if (!run.measured()) return {};
  for (const Quantity& quantity : run.kind->quantities()) {
    if (quantity.if_not_finite.empty()) continue;
    for (const RankResult& rank : run.ranks) {
      for (const Sample& sample : rank.samples) {
        const std::optional<double> value = sample.find(quantity);
        if (!value || std::isfinite(*value)) continue;
        return fmt::format("the {} was {} in step {} on rank {}: {}", quantity.key, *value,
                           sample.step, rank.rank, quantity.if_not_finite);
      }
    }
  }
  return {};
}

}  // namespace ddprun
