// One row of a report: a run, what became of it, and how it is called.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/result/run.h"

namespace ddprun {

enum class RowStatus : std::uint8_t {
  not_run,
  ok,
  failed,
  out_of_memory,
  proof_failed,  // it ran, but what it computed is wrong
  diverged,      // measured and proved, but a value that should be finite was not
};
/// "out of memory"
const char* to_string(RowStatus status);

struct Row : Run {
  /// The experiment file's `name:`.
  std::string name = {};
  /// Of the sweep point; empty without a sweep.
  std::string label = {};
  RowStatus status = RowStatus::not_run;
  /// Why the status is not ok.
  std::string reason = {};
  /// Equal fingerprints: the same experiment on the same software and CPU.
  std::string fingerprint = {};
  /// Who started the ranks.
  std::string launcher = {};
  std::int64_t world_size = 0;
  /// --resume: the result folder that this row was measured for; else empty.
  std::string taken_from = {};

  bool ok() const { return status == RowStatus::ok; }
};

/// The kinds of the rows, in order of appearance.
std::vector<const ExperimentKind*> kinds_of(const std::vector<Row>& rows);

/// A row in result.json, statistics and proof included; the latter are computed anew on reading.
nlohmann::json to_json(const Row& row);
/// Throws Error or nlohmann::json::exception.
Row row_from_json(const nlohmann::json& json);

}  // namespace ddprun
