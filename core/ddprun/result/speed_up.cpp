// Finds a run's base.
#include "ddprun/result/row_runs.h"

namespace ddprun {

namespace {

double time_of(const RowRuns& row) {
  return mean_figure(row, row.front()->run().kind->quantities().front());
}

}  // namespace

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
