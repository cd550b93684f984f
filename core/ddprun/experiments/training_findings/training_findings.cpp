// Which rows count, and how many sentences of a sort are shown.
#include "ddprun/experiments/training_findings/training_findings.h"

#include <map>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/experiments/training/scaling.h"

namespace ddprun {

namespace {

/// A table of many small comparisons would have too many sentences: so many of each experiment.
constexpr std::size_t kMostOfAKind = 6;

void add(std::vector<Finding>& out, std::vector<Finding> found) {
  std::erase_if(found, [](const Finding& each) { return each.text.empty(); });
  std::map<std::string, std::size_t> said;  // of each experiment
  for (Finding& each : found) {
    if (++said[each.experiment] > kMostOfAKind) each.text.clear();  // its numbers are kept
    out.push_back(std::move(each));
  }
}

/// Whether a run's times are those of a step that did what it should.
bool counts(const RunStatistics& run) {
  const CheckStatus proof = summarize_proof(run.run()).status;
  const bool proved = proof == CheckStatus::passed || proof == CheckStatus::declared ||
                      proof == CheckStatus::control;
  return run.timed() && proved && divergence(run.run()).empty();
}

}  // namespace

namespace training_findings {

const Run& run_of(const RowRuns& row) { return row.front()->run(); }
const std::string& name_of(const RowRuns& row) { return row.front()->name(); }

bool is_control(const RowRuns& row) {
  return summarize_proof(run_of(row)).status == CheckStatus::control;
}

bool does_other_work(const RowRuns& row) {
  return is_control(row) || summarize_proof(run_of(row)).status == CheckStatus::declared;
}

bool overlaps(const RowRuns& row) {
  return mean_figure(row, training().overlapped_share) >= Training::kObservedOverlap;
}

double step_of(const RowRuns& row) { return mean_figure(row, training().step_ms); }
double exposed_of(const RowRuns& row) { return mean_figure(row, training().exposed_ms); }

std::vector<Rows> by_work(const Rows& rows) {
  Groups<Rows> groups;
  for (const RowRuns& row : rows) {
    groups[json_text(config_without(*row.front(), {"strategy"}))].push_back(row);
  }
  return mapped(groups, [](const auto& group) { return group.second; });
}

Finding finding(const char* what, const std::string& text, const RowRuns& row,
                nlohmann::json value) {
  value.update(
      {{"kind", training().name()}, {"finding", what}, {"row", name_of(row)}, {"text", text}});
  const nlohmann::json& config = run_of(row).config;
  return {.text = text,
          .value = std::move(value),
          .experiment = config.is_object() ? config.value("name", "") : ""};
}

}  // namespace training_findings

std::vector<Finding> Training::findings(const std::vector<const RunStatistics*>& all) const {
  namespace of = training_findings;
  of::Runs runs;
  std::ranges::copy_if(all, std::back_inserter(runs),
                       [](const RunStatistics* run) { return counts(*run); });
  const of::Rows rows = by_row(runs);
  std::vector<Finding> out;
  for (const of::Sorts& sorts : {of::of_speed(rows, runs), of::of_limits(rows), of::of_advice(rows),
                                 of::of_trends(rows), of::of_conduct(rows)}) {
    for (const std::vector<Finding>& found : sorts) add(out, found);
  }
  const std::size_t tests = settle(out);
  if (tests == 0) return out;
  std::vector<Finding> chance;
  for (const std::vector<Finding>& found : of::of_chance(rows, tests)) add(chance, found);
  settle(chance);
  out.insert(out.end(), chance.begin(), chance.end());
  return out;
}

}  // namespace ddprun
