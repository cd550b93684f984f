// A run of an experiment: everything that the figures of a report are computed from.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/account.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Runs that took turns. Equal: they did; else they were measured at different times.
struct Occasion {
  std::string time = {};  ///< when ddprun began, UTC
  std::string host = {};
  std::int64_t process = 0;
  std::int64_t round = 0;  ///< within that process: of a file, or of rows that had to run again

  bool operator==(const Occasion&) const = default;
};

struct Run {
  /// Null: the experiment was refused before its kind was known.
  const ExperimentKind* kind = nullptr;
  /// The resolved experiment; null if the YAML was refused.
  nlohmann::json config = nullptr;
  /// What all ranks together do in one step. The kind decides what stands here.
  nlohmann::json work = nullptr;
  /// Runs with equal fingerprints are the same experiment.
  std::string fingerprint = {};
  /// The fingerprint of the run that its speed-up counts from, which may be its own; empty: none.
  std::string baseline = {};
  /// Which run of its row it is; 1 is the first. All of them have one fingerprint.
  std::int64_t repetition = 1;
  /// In which turn of all rows it ran, 1 is the first; a base of others may run twice in each.
  std::int64_t round = 1;
  /// Whether the ranks shared a GPU, so that its times mean nothing.
  bool emulated = false;
  /// What it was measured under (conditions.h).
  nlohmann::json conditions = nlohmann::json::object();
  Occasion occasion = {};
  /// What a rank would take, by the experiment alone. Empty: nobody asked, or the kind has none.
  std::optional<Account> predicted = {};
  /// The results of all ranks, in rank order. Empty unless the run came to its end.
  std::vector<RankResult> ranks = {};

  bool measured() const { return !ranks.empty(); }
};

/// Of each phase, from the rank with the highest peak in it; empty: memory was not measured.
std::vector<PhaseMemory> highest_memory(const Run& run);

Proof summarize_proof(const Run& run);

/// What of a measured run cannot be, such as a step that took no time; empty: nothing was found.
std::string impossible(const Run& run);

/// Says in which step a value that should be finite was not; empty if all were.
std::string divergence(const Run& run);

}  // namespace ddprun
