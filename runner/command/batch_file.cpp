// From a plan to a row, and from an outcome to a row's status.
#include "runner/command/batch_file.h"

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/result/conditions.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

void set_failed(Row& row, RowStatus status, const std::string& reason) {
  row.status = status;
  row.reason = reason;
}

/// Whether the proof before the first step failed, so that nothing was timed: then no figures.
bool stopped_by_proof(Row& row) {
  if (row.ranks.empty() || !row.ranks.front().samples.empty()) return false;
  judge(row);
  if (row.status != RowStatus::proof_failed) return false;
  row.ranks.clear();
  row.reason += " (nothing was timed)";
  return true;
}

}  // namespace

Row unrun_row(const PlannedFile& file, const PlannedTurn& turn, const std::string& launcher) {
  const PlannedRun& planned = *turn.run;
  const Experiment& e = planned.experiment;
  Row row;
  row.kind = e.kind;
  row.file = file.file.string();
  row.name = file.name;
  row.label = e.label;
  row.baseline = planned.baseline;
  row.baseline_words = file.baseline_words;
  row.config = to_json(planned.resolved);
  row.fingerprint = planned.fingerprint;
  row.repetition = turn.repetition;
  row.round = turn.round;
  row.world_size = e.world.size;
  row.emulated = e.world.emulated();
  row.work = planned.work;
  row.conditions = planned.conditions;
  row.conditions[kLaunch]["launcher"] = launcher;
  if (!planned.not_here.empty()) {
    set_failed(row, planned.fails ? RowStatus::failed : RowStatus::not_here, planned.not_here);
  }
  return row;
}

Row refused_row(const PlannedFile& file) {
  Row row;
  row.file = file.file.string();
  row.name = file.name;
  set_failed(row, RowStatus::failed, file.error);
  return row;
}

void finish_row(Row& row, const Outcome& outcome) {
  if (outcome.status != Outcome::Status::ok) {
    const bool memory = outcome.status == Outcome::Status::out_of_memory;
    set_failed(row, memory ? RowStatus::out_of_memory : RowStatus::failed, outcome.reason);
    return;
  }
  try {
    for (const nlohmann::json& rank : outcome.result) {
      const auto parsed = parse_json(rank.get_ref<const std::string&>());
      row.ranks.push_back(rank_result_from_json(parsed, *row.kind));
    }
    if (stopped_by_proof(row)) return;
    const RunStatistics checked(row);
    row.conditions[kRanks] = observed_conditions(row);
  } catch (const std::exception& error) {
    row.ranks.clear();
    set_failed(row, RowStatus::failed,
               std::string("the ranks' results make no sense: ") + error.what());
    return;
  }
  judge(row);
}

std::string obstacles_of(std::span<const BatchRow> rows) {
  return each_once(mapped(rows, [](const BatchRow& each) {
    return each.cannot_run() ? each.row.reason : std::string();
  }));
}

std::string unsaved(const Row& row) {
  if (row.ranks.empty() || row.ranks.front().checkpoints.empty()) return "";
  return row.ranks.front().checkpoints.back().failure;
}

std::string outcome_text(const Row& row) {
  return std::string(name_of(row.status)) + ": " + row.reason;
}

std::string end_text(const Row& row) {
  if (!row.measured()) return outcome_text(row);
  const std::string text = row.kind->in_short(RunStatistics(row));
  return row.ok() ? text : text + "; " + outcome_text(row);
}

}  // namespace ddprun
