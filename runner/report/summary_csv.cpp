// Figures as comma-separated values.
#include "runner/report/summary_csv.h"

#include <fmt/format.h>

#include <cmath>

#include "ddprun/result/run_statistics.h"
#include "runner/report/csv_field.h"
#include "runner/report/row_names.h"

namespace ddprun {

namespace {

/// Whether a summary over steps says something of the quantity.
bool is_summarized(const Quantity& quantity) {
  if (!quantity.of_steps()) return false;
  return quantity.over_steps == OverSteps::median || quantity.over_steps == OverSteps::mean;
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string line_of(const std::string& row, const RunStatistics& run, const Quantity& quantity) {
  if (quantity.compares || (quantity.timed && !run.timed())) return {};
  const Figure figure = run.figure(quantity);
  if (!figure.value) return {};
  std::string line =
      fmt::format("{},{},{},{}", row, quantity.key, quantity.unit, number(*figure.value));
  if (!is_summarized(quantity)) return line + ",,,,,\n";
  const Summary& steps = run[quantity].steps;
  return line + fmt::format(",{},{},{},{},{}\n", number(steps.mean), number(steps.std),
                            number(steps.median), number(steps.p95), steps.count);
}

}  // namespace

std::string summary_csv(const std::vector<Row>& rows) {
  std::string out = "row,label,quantity,unit,figure,mean,std,median,p95,n\n";
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].measured()) continue;
    const RunStatistics run(rows[i]);
    const std::string row = fmt::format("{},{}", i + 1, csv_field(names.names[i]));
    for (const Quantity& quantity : rows[i].kind->quantities()) out += line_of(row, run, quantity);
  }
  return out;
}

}  // namespace ddprun
