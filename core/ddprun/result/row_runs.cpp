// Rows from runs, figures over the runs of a row, and its base.
#include "ddprun/result/row_runs.h"

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// Whether figures of runs add up.
bool adds_up(const Quantity& quantity) {
  return quantity.of_steps() &&
         (quantity.over_steps == OverSteps::count || quantity.over_steps == OverSteps::sum);
}

double time_of(const RowRuns& row) {
  return mean_figure(row, row.front()->run().kind->quantities().front());
}

}  // namespace

bool same_row(const Run& before, const Run& next) {
  return next.repetition > before.repetition && next.fingerprint == before.fingerprint;
}

std::vector<RowRuns> by_row(const std::vector<const RunStatistics*>& runs) {
  std::vector<RowRuns> rows;
  for (const RunStatistics* run : runs) {
    if (rows.empty() || !same_row(rows.back().back()->run(), run->run())) rows.emplace_back();
    rows.back().push_back(run);
  }
  return rows;
}

RowRuns row_of(const RunStatistics& run, const std::vector<const RunStatistics*>& runs) {
  for (const RowRuns& row : by_row(runs)) {
    if (contains(row, &run)) return row;
  }
  return {&run};
}

RowRuns base_of(const Run& run, const std::vector<const RunStatistics*>& runs) {
  RowRuns base;
  for (const RowRuns& row : by_row(runs)) {
    const RunStatistics& first = *row.front();
    if (!first.timed() || first.run().fingerprint != run.baseline) continue;
    if (first.run().occasion == run.occasion) return row;
    if (base.empty()) base = row;
  }
  return base;
}

RowFigure row_figure(const RowRuns& row, const Quantity& quantity,
                     const std::vector<const RunStatistics*>& all) {
  RowFigure out;
  std::vector<double> values, firsts;
  for (const RunStatistics* run : row) {
    if (quantity.timed && !run->timed()) continue;
    const Figure figure = quantity.compares ? quantity.compares(*run, all) : run->figure(quantity);
    if (out.words.empty()) out.words = figure.words;
    if (!figure.value) continue;
    values.push_back(*figure.value);
    if (quantity.of_steps()) firsts.push_back((*run)[quantity].first);
  }
  out.runs = summarize(values);
  out.first = summarize(firsts).mean;
  const double all_together = out.runs.mean * out.runs.count;
  if (!values.empty()) out.value = adds_up(quantity) ? all_together : out.runs.mean;
  return out;
}

std::vector<double> run_figures(const RowRuns& row, const Quantity& quantity) {
  std::vector<double> out;
  for (const RunStatistics* run : row) {
    if (const Figure figure = run->figure(quantity); figure.value) out.push_back(*figure.value);
  }
  return out;
}

double mean_figure(const RowRuns& row, const Quantity& quantity) {
  return summarize(run_figures(row, quantity)).mean;
}

Figure speed_up(const RunStatistics& run, const std::vector<const RunStatistics*>& runs) {
  if (run.run().baseline.empty()) return {};
  const RowRuns base = base_of(run.run(), runs);
  const double own = time_of(row_of(run, runs));
  return base.empty() || own <= 0 ? Figure{} : Figure{time_of(base) / own};
}

Figure time_difference(const RunStatistics& run, const std::vector<const RunStatistics*>& runs) {
  const Figure factor = speed_up(run, runs);
  return factor.value && *factor.value > 0 ? Figure{1 / *factor.value - 1} : Figure{};
}

Quantity speed_up_of_calls() {
  return {.key = "speed_up",
          .compares = speed_up,
          .title = "speed-up",
          .drop_order = 1,
          .text = text_as("{:.2f}x"),
          .meaning =
              "median time of the row's [base](configuration.md#what-speed-up-counts-from) "
              "/ median time of this row"};
}

Quantity number_of_calls(const Quantity& time, int drop_order) {
  return {.key = "samples",
          .of = &time,
          .over_ranks = time.over_ranks,
          .over_steps = OverSteps::number,
          .title = "n",
          .drop_order = drop_order,
          .timed = false,
          .text = text_as("{:.0f}")};
}

}  // namespace ddprun
