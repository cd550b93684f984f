// Rows of training beside one another, each sentence with its test.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/experiments/training/scaling.h"
#include "ddprun/experiments/training_findings/training_findings.h"
#include "ddprun/result/conditions.h"
#include "ddprun/result/paired_test.h"

namespace ddprun::training_findings {

namespace {

using nlohmann::json;

double tokens_of(const RowRuns& row) { return run_of(row).work.at("tokens").get<double>(); }

RunFigure figure_by(const Quantity& quantity) {
  return [&quantity](const RunStatistics& run) { return run.figure(quantity).value; };
}

Comparison compare_by(const Quantity& quantity, const RowRuns& row, const RowRuns& base,
                      std::size_t chosen_from) {
  return compare_rows(row, base, figure_by(quantity), chosen_from);
}

Finding compared(const char* what, const std::string& text, const RowRuns& row, const RowRuns& base,
                 const Comparison& comparison) {
  Finding out = finding(what, text, row, {{"base", name_of(base)}});
  out.tests.push_back(comparison);
  return out;
}

/// Rows that are compared with one of them.
struct Family {
  RowRuns base;
  Rows others;  // of the same tokens a step, in the table's order
};

void add_to(std::vector<Family>& families, const RowRuns& base, const RowRuns& row) {
  if (tokens_of(row) != tokens_of(base)) return;  // another step: its time says nothing
  const auto known = std::ranges::find_if(
      families, [&](const Family& family) { return family.base.front() == base.front(); });
  Family& family = known != families.end() ? *known : families.emplace_back(Family{base, {}});
  family.others.push_back(row);
}

/// What speed-ups compare.
std::vector<Family> families_by_base(const Rows& rows, const Runs& runs) {
  std::vector<Family> families;
  for (const RowRuns& row : rows) {
    const std::string& wanted = run_of(row).baseline;
    if (wanted.empty() || wanted == run_of(row).fingerprint) continue;
    if (const RowRuns base = base_of(run_of(row), runs); !base.empty()) add_to(families, base, row);
  }
  return families;
}

/// Rows that differ in their precision alone, where speed-ups compare something else.
std::vector<Family> families_by_precision(const Rows& rows) {
  std::vector<Family> families;
  std::map<std::string, const RowRuns*> first;  // by the rest of the experiment
  for (const RowRuns& row : rows) {
    const json rest = config_without(*row.front(), {"precision"});
    if (!rest.is_object()) continue;
    const RowRuns& base = *first.emplace(json_text(rest), &row).first->second;
    if (&base == &row || run_of(row).config.at("precision") == run_of(base).config.at("precision"))
      continue;
    if (run_of(row).baseline != run_of(base).fingerprint) add_to(families, base, row);
  }
  return families;
}

/// Adds how the fastest row stands to the one that is next to it in time.
void add_next(Finding& finding, const Family& family, const Rows& candidates) {
  if (candidates.size() < 2) return;
  const RowRuns& next = candidates[1];
  if (run_of(next).fingerprint == run_of(family.base).fingerprint) return;
  const std::size_t pairs = candidates.size() * (candidates.size() - 1) / 2;
  finding.tests.push_back(compare_by(training().step_ms, candidates[0], next, pairs));
  finding.text += fmt::format("; it {} {}, the next{}", words_of_times(finding.tests.back()),
                              name_of(next), kVerdictHere);
}

/// The fastest row of a family beside its base. What does other work is no candidate.
Finding fastest_of(const Family& family, const char* what) {
  Rows candidates;
  if (!does_other_work(family.base)) candidates.push_back(family.base);
  std::ranges::copy_if(family.others, std::back_inserter(candidates), std::not_fn(does_other_work));
  std::ranges::stable_sort(
      candidates, [](const RowRuns& a, const RowRuns& b) { return step_of(a) < step_of(b); });
  if (candidates.empty()) return {};
  const auto is_base = [&family](const RowRuns& row) {
    return run_of(row).fingerprint == run_of(family.base).fingerprint;
  };
  const bool base_wins = is_base(candidates.front());
  if (base_wins && candidates.size() < 2) return {};
  const RowRuns& row = candidates[base_wins ? 1 : 0];
  const Comparison c = compare_by(training().step_ms, row, family.base,
                                  candidates.size() - (does_other_work(family.base) ? 0 : 1));
  std::string text = name_of(row);
  // Of several runs, which the table averages; what follows is the mean of the rounds' quotients.
  const std::string shortest =
      fmt::format(", whose {}step is the shortest of {}",
                  candidates.front().size() > 1 ? "mean " : "", candidates.size());
  if (!base_wins && candidates.size() > 2) text += shortest + ",";
  text += fmt::format(" {} {}", words_of_times(c), name_of(family.base));
  if (is_control(family.base)) text += ", which does not synchronize";
  if (base_wins && candidates.size() > 2) text += shortest;
  Finding out = compared(what, text + kVerdictHere, row, family.base, c);
  if (!base_wins) add_next(out, family, candidates);
  return out;
}

std::vector<Finding> fastest(const std::vector<Family>& families, const char* what) {
  return mapped(families, [what](const Family& family) { return fastest_of(family, what); });
}

/// Of rows that do the same work: what the one with the least exposed communication hides of what
/// the first one exposes that hides nothing.
Finding hidden_of(const Rows& rows) {
  const RowRuns* open = nullptr;
  const RowRuns* best = nullptr;
  std::size_t candidates = 0;
  for (const RowRuns& row : rows) {
    if (does_other_work(row) || mean_figure(row, training().collectives) <= 0) continue;
    if (!overlaps(row)) {
      if (open == nullptr) open = &row;
      continue;
    }
    ++candidates;
    if (best == nullptr || exposed_of(row) < exposed_of(*best)) best = &row;
  }
  if (open == nullptr || best == nullptr || exposed_of(*open) <= 0) return {};
  Comparison c = compare_by(training().exposed_ms, *best, *open, candidates);
  c.told = Told::less;
  const std::string text =
      c.ratio < 1
          ? fmt::format("{} hides {} % of the communication that {} exposes{}", name_of(*best),
                        percent_text(1 - c.ratio), name_of(*open), kVerdictHere)
          : fmt::format("{} overlaps communication, and exposes no less of it than {}{}",
                        name_of(*best), name_of(*open), kVerdictHere);
  return compared("hidden_communication", text, *best, *open, c);
}

std::vector<Finding> hidden(const Rows& rows) { return mapped(by_work(rows), hidden_of); }

/// The efficiency of a row, if no other row of its line has more ranks.
Finding scaling_of(const RowRuns& row, const Runs& runs, Scaling scaling) {
  const RunStatistics& run = *row.front();
  const RunStatistics* base = scaling_base(run, runs, scaling);
  if (base == nullptr || base->run().ranks.size() == run.run().ranks.size()) return {};
  const bool largest = std::ranges::none_of(runs, [&](const RunStatistics* other) {
    return other->run().ranks.size() > run.run().ranks.size() &&
           scaling_base(*other, runs, scaling) == base;
  });
  if (!largest) return {};
  const std::string name = scaling == Scaling::strong ? "strong" : "weak";
  const std::size_t ranks = run.run().ranks.size(), fewest = base->run().ranks.size();
  if (!equal_ranks(run, *base)) {
    return {
        fmt::format("no {} efficiency: ranks are no equal parts: threads of a rank are {} in {} "
                    "and {} in {} (world.threads_per_rank sets them)",
                    name, run.run().ranks.front().threads, name_of(row),
                    base->run().ranks.front().threads, base->name())};
  }
  const RowRuns base_row = row_of(*base, runs);
  Comparison c = compare_rows(base_row, row, [scaling](const RunStatistics& of) {
    return std::optional(cost_ms(of, scaling));
  });
  c.told = Told::share;
  const std::string text = fmt::format(
      "{} scaling: {} ranks ({}) have {:.0f} % of the efficiency of {}{}", name, ranks,
      name_of(row), c.ratio * 100, fewest == 1 ? "one" : std::to_string(fewest), kVerdictHere);
  return compared((name + "_scaling").c_str(), text, row, base_row, c);
}

std::vector<Finding> scaling(const Rows& rows, const Runs& runs) {
  std::vector<Finding> out;
  for (const Scaling each : {Scaling::strong, Scaling::weak}) {
    for (const RowRuns& row : rows) out.push_back(scaling_of(row, runs, each));
  }
  return out;
}

/// What chance does to a row that ran twice a round, and what so many tests see beyond it.
Finding calibration_of(const RowRuns& row, std::size_t tests) {
  const Comparison twins = compare_twins(row, figure_by(training().step_ms));
  if (!twins.p) return {};
  const Calibration found = calibrate(log_ratios(twins), tests);
  const std::string smallest = found.smallest
                                   ? fmt::format("one of {:.1f} %", *found.smallest * 100)
                                   : "not even one of twice the time";
  Finding out = finding(
      "calibration",
      fmt::format("{}, which ran twice in each of {} rounds, {} itself{}: of tables of such chance "
                  "alone {:.1f} % would name a difference, and {} would be named in 4 of 5",
                  name_of(row), twins.own.size(), words_of_times(twins), kVerdictHere,
                  found.false_alarms * 100, smallest),
      row,
      {{"false_alarms", found.false_alarms},
       {"smallest", found.smallest ? json(*found.smallest) : json(nullptr)},
       {"of_tests", tests}});
  out.tests.push_back(twins);
  return out;
}

/// The largest difference between runs of one row, as a share of their mean.
double between_runs(const RowRuns& row, const Quantity& quantity) {
  const Summary of = summarize(run_figures(row, quantity));
  return of.count > 1 && of.mean > 0 ? (of.max - of.min) / of.mean : 0;
}

/// What repeats, and what does not.
std::vector<Finding> repeated(const Rows& rows) {
  double steps = 0, exposed = 0;
  bool any = false;
  for (const RowRuns& row : rows) {
    if (row.size() < 2) continue;
    any = true;
    steps = std::max(steps, between_runs(row, training().step_ms));
    exposed = std::max(exposed, between_runs(row, training().exposed_ms));
  }
  if (!any) return {};
  auto text = fmt::format("runs of one row differ by up to {:.1f} % in their step", steps * 100);
  if (exposed > 0) text += fmt::format(", and {:.1f} % in exposed communication", exposed * 100);
  text += " (largest - smallest, of the mean)";
  return {{text,
           {{"kind", training().name()},
            {"finding", "between_runs"},
            {"step", steps},
            {"exposed", exposed},
            {"text", text}}}};
}

}  // namespace

Sorts of_speed(const Rows& rows, const Runs& runs) {
  return {fastest(families_by_base(rows, runs), "fastest"),
          fastest(families_by_precision(rows), "precision"), hidden(rows), scaling(rows, runs),
          repeated(rows)};
}

Sorts of_chance(const Rows& rows, std::size_t tests) {
  return {mapped(rows, [tests](const RowRuns& row) { return calibration_of(row, tests); })};
}

}  // namespace ddprun::training_findings
