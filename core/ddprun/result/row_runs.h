// The runs of one row of a table: one, or several that took turns with those of the other rows;
// and how fast one is beside its base.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/run_statistics.h"

namespace ddprun {

/// The measured runs of a row, in order; at least one.
using RowRuns = std::vector<const RunStatistics*>;

/// Whether `next` is a later run of the row that `before` is of. They stand side by side.
bool same_row(const Run& before, const Run& next);

/// The rows of a table, from its measured runs in order.
std::vector<RowRuns> by_row(const std::vector<const RunStatistics*>& runs);

/// The row of that run among the rows of `runs`.
RowRuns row_of(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);
/// The timed row of `runs` that `run` counts from (Run::baseline): the one that took turns with it,
/// else the first. Empty: there is none.
RowRuns base_of(const Run& run, const std::vector<const RunStatistics*>& runs);

/// A quantity of a row. A run's figure is one sample here: steps of a run are alike in what made
/// that run slow or fast, so they say nothing of the next run.
struct RowFigure {
  /// The mean over the runs that have one; of what adds up over the steps, the sum.
  std::optional<double> value = {};
  /// Of OverSteps::ends, the mean of the first steps.
  double first = 0;
  /// The words of the first run that has some.
  std::string words = {};
  /// Of the runs' figures.
  Summary runs = {};
};

/// `all`: every measured run of that kind in the table. A time of emulated ranks is left out.
RowFigure row_figure(const RowRuns& row, const Quantity& quantity,
                     const std::vector<const RunStatistics*>& all);

/// The figure of each run that has one, of any quantity but those with `compares`.
std::vector<double> run_figures(const RowRuns& row, const Quantity& quantity);

/// Their mean; 0 if there is none.
double mean_figure(const RowRuns& row, const Quantity& quantity);

/// The kind's first quantity of the base's row (Run::baseline) / that of the row of this run, each
/// the mean over its runs. No value: it has no base, or the base was not timed.
Figure speed_up(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);

/// Its reverse, less 1: 0.019 is 1.9 % more time than the base's.
Figure time_difference(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);

/// speed_up() as the quantity of a kind that measures the time of a call.
Quantity speed_up_of_calls();

/// How many calls were measured, of such a kind. `time`: of a call.
Quantity number_of_calls(const Quantity& time, int drop_order);

}  // namespace ddprun
