// One experiment that ran: what the figures of a report are made of.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "ddprun/result/rank_result.h"

namespace ddprun {

struct Run {
  /// Null: the experiment was refused before its kind was known.
  const ExperimentKind* kind = nullptr;
  /// The resolved experiment; null if the YAML was refused.
  nlohmann::json config = nullptr;
  /// What all ranks do in one step together, in terms of the kind.
  nlohmann::json work = nullptr;
  /// The ranks shared a GPU: its times mean nothing.
  bool emulated = false;
  /// In rank order; empty unless it ran to its end.
  std::vector<RankResult> ranks = {};

  bool measured() const { return !ranks.empty(); }
};

/// The memory of each phase: of the rank with the highest peak in it. None: nobody looked at it.
std::vector<PhaseMemory> highest_memory(const Run& run);

Proof summarize_proof(const Run& run);

/// Says in which step a value that should be finite was not; empty if all were.
std::string divergence(const Run& run);

}  // namespace ddprun
