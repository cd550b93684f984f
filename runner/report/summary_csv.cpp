// Figures as comma-separated values.
#include "runner/report/summary_csv.h"

#include <fmt/format.h>

#include <cmath>

#include "runner/report/csv_field.h"

namespace ddprun {

namespace {

/// Whether a summary over steps says something of the quantity.
bool is_summarized(const Quantity& quantity) {
  if (!quantity.of_steps()) return false;
  return quantity.over_steps == OverSteps::median || quantity.over_steps == OverSteps::mean;
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string summary_text(const Summary& of) {
  return fmt::format(",{},{},{},{},{}\n", number(of.mean), number(of.std), number(of.median),
                     number(of.p95), of.count);
}

/// A figure of one run, and the summary of its steps.
std::string run_line(const std::string& row, const RunStatistics& run, const Quantity& quantity) {
  if (quantity.timed && !run.timed()) return {};
  const Figure figure = run.figure(quantity);
  if (!figure.value) return {};
  const std::string line = fmt::format("{},{},{},{},{}", row, run.run().repetition, quantity.key,
                                       quantity.unit, number(*figure.value));
  return line + (is_summarized(quantity) ? summary_text(run[quantity].steps) : ",,,,,\n");
}

/// A figure of the row, and the summary of its runs' figures.
std::string row_line(const std::string& row, const RowFigure& figure, const Quantity& quantity) {
  if (!figure.value) return {};
  const std::string line =
      fmt::format("{},all,{},{},{}", row, quantity.key, quantity.unit, number(*figure.value));
  return line + (quantity.compares ? ",,,,,\n" : summary_text(figure.runs));
}

}  // namespace

std::string summary_csv(const TableLines& table) {
  std::string out = "row,label,run,quantity,unit,figure,mean,std,median,p95,n\n";
  for (const TableLine& line : table.lines()) {
    if (line.runs.empty()) continue;
    const std::string row = fmt::format("{},{}", line.first + 1, csv_field(line.name));
    const ExperimentKind& kind = *line.runs.front()->run().kind;
    for (const Quantity& quantity : kind.quantities()) {
      if (!quantity.compares) {
        for (const RunStatistics* run : line.runs) out += run_line(row, *run, quantity);
      }
      if (!quantity.compares && line.count == 1) continue;  // the run is the row
      out += row_line(row, table.figure(line, kind, quantity), quantity);
    }
  }
  return out;
}

}  // namespace ddprun
