// One row of a report: an experiment, what became of it, and everything its ranks measured.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/train/rank_result.h"

namespace ddprun {

namespace row_status {
inline constexpr const char* kOk = "ok";
inline constexpr const char* kFailed = "failed";
inline constexpr const char* kOutOfMemory = "out of memory";
inline constexpr const char* kProofFailed =
    "proof failed";  ///< it ran, but what it computed is wrong
inline constexpr const char* kDiverged =
    "diverged";  ///< measured and proved, but a loss was no number
inline constexpr const char* kNotRun = "not run";
}  // namespace row_status

struct Row {
  std::string name;   ///< the experiment file's `name:`
  std::string label;  ///< of the sweep point; empty without a sweep
  std::string status = row_status::kNotRun;
  std::string reason;     ///< why the status is not ok
  nlohmann::json config;  ///< the resolved experiment; null if the YAML was refused
  std::string
      fingerprint;       ///< equal fingerprints: the same experiment on the same software and CPU
  std::string launcher;  ///< who started the ranks
  std::int64_t world_size = 0;
  bool emulated = false;          ///< the ranks shared a GPU: its times mean nothing
  std::int64_t global_batch = 0;  ///< sequences per step over all ranks
  std::int64_t context_length = 0;
  double flops_per_token = 0;     ///< of the matrix products, forward and backward
  std::vector<RankResult> ranks;  ///< in rank order; empty unless it ran to its end
  std::string
      taken_from;  ///< --resume: the result folder that this row was measured for; else empty

  bool ok() const { return status == row_status::kOk; }
  bool measured() const { return !ranks.empty(); }
};

/// The strictest outcome of each check over the ranks, in the order in which rank 0 made them.
struct Proof {
  std::string status;  ///< passed | failed | control | unchecked
  std::vector<Check> checks;
};
Proof summarize_proof(const std::vector<RankResult>& ranks);

/// Says in which step a loss was no finite number; empty if all were.
std::string divergence(const std::vector<RankResult>& ranks);

/// A row in result.json, statistics and proof included; the latter are computed anew on reading.
nlohmann::json to_json(const Row& row);
Row row_from_json(const nlohmann::json& json);

}  // namespace ddprun
