// A row of a report: a run, its name, and how it ended.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/result/run.h"
#include "runner/report/result_folder.h"

namespace ddprun {

enum class RowStatus : std::uint8_t {
  not_run,
  not_here,  // valid, but this machine cannot run it
  ok,
  failed,
  out_of_memory,
  proof_failed,  // it ran, but what it computed is wrong
  diverged,      // measured and proved, but a value that should be finite was not
};
constexpr auto choice_names(RowStatus) {
  return std::array{"not run",       "not here",     "ok",      "failed",
                    "out of memory", "proof failed", "diverged"};
}

/// How often ddprun started the ranks of a row again, and what that cost.
struct Restarts {
  std::vector<std::string> reasons = {};  ///< what ended the ranks each time
  std::int64_t steps_again = 0;           ///< that were done and not saved, so done again
  /// From each start's first step to its last, no step twice; and from the first start to the end.
  double useful_s = 0, all_s = 0;

  /// Effective training time ratio (Kokolis et al. 2024, "Revisiting reliability in large-scale
  /// machine learning research clusters").
  double ettr() const { return useful_s / all_s; }
};

struct Row : Run {
  /// The experiment file as the user named it, or as it was found; not written.
  std::string file = {};
  std::string name = {};
  /// The label of the sweep point; empty without a sweep.
  std::string label = {};
  RowStatus status = RowStatus::not_run;
  /// Why the status is not ok.
  std::string reason = {};
  /// What its base is: "precision=fp32 of the same model.preset".
  std::string baseline_words = {};
  std::int64_t world_size = 0;
  /// With --resume, the result folder that this row was measured for; else empty.
  std::string taken_from = {};
  Restarts restarts = {};

  bool ok() const { return status == RowStatus::ok; }
};

/// Whether its memory ran out under a limit that its file sets: it has shown what was asked.
bool met_memory_limit(const Row& row);

/// Sets the status and reason of a row that was measured: from its checks and its values.
void judge(Row& row);

/// The kinds of the rows, in order of appearance.
std::vector<const ExperimentKind*> kinds_of(const std::vector<Row>& rows);

/// The row as it stands in result.json, on one line, with statistics and proof. Reading does not
/// use these: they are computed anew. Of the ranks one at a time is in memory as text.
void write_row_json(const Row& row, const TextSink& sink);
/// Throws Error or nlohmann::json::exception.
Row row_from_json(const nlohmann::json& json);

}  // namespace ddprun
