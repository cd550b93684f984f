// What `ddprun tune` tries of a file: its candidates, planned and predicted, in the order in which
// they run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/launch/plan.h"
#include "runner/tune/candidates.h"

namespace ddprun {

/// A candidate that this machine can run.
struct TunedCandidate {
  Candidate choice;
  PlannedRun run;  ///< of a few steps
  std::optional<Account> account = {};
};

struct LeftOut {
  std::string label;
  std::string reason;  ///< one line
};

struct Tuning {
  PlannedFile file;  ///< as it stands
  std::vector<TunedKey> keys;
  /// The reference first, then what the account says is fastest.
  std::vector<TunedCandidate> candidates = {};
  /// What the others are held against: the file's own setting, or of a sweep the first that runs
  /// here; nothing: the file's own setting does not run here.
  std::optional<std::size_t> reference = {};
  std::string reference_words = {};  ///< "the file's own setting"
  std::vector<LeftOut> left_out = {};
  std::int64_t steps = 0;  ///< train.steps of the file
};

/// The keys that are tuned: those of `over`, or else, of several ranks, strategy and its buckets,
/// of one rank attention, and model.recompute where memory does not do. Throws ConfigError for a
/// file that has other experiments besides, for one that does not train, and as parse_over(),
/// check_tuned() and with_values().
std::vector<TunedKey> tuned_keys(const PlannedFile& file, const std::string& over);

/// `options` are those that `file` was planned with. What cannot be planned, does not fit here or
/// does not train alike is left out. Throws ConfigError if nothing is there to choose from.
Tuning plan_tuning(PlannedFile file, std::vector<TunedKey> keys, const PlanOptions& options,
                   PlanCache& cache);

/// The candidate alone, with so many measured steps. It saves nothing, and tells nothing while it
/// runs. What this machine lacks for it now stands in its obstacles().
PlannedFile plan_candidate(const Tuning& tuning, const Candidate& candidate, std::int64_t steps,
                           PlanOptions options, PlanCache& cache);

/// The file with the values of the candidate written in. Its paths are absolute.
ConfigNode tuned_document(const Tuning& tuning, const TunedCandidate& candidate);

}  // namespace ddprun
