// Samples and figures as comma-separated values.
#include "runner/report/csv_files.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/profile/collective_limits.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace {

/// Whether a summary over steps says something of the quantity.
bool is_summarized(const Quantity& quantity) {
  if (!quantity.of_steps()) return false;
  return quantity.over_steps == OverSteps::median || quantity.over_steps == OverSteps::mean;
}

std::string summary_text(const Summary& of) {
  const std::string std = of.count > 1 ? csv_number(of.std) : "";  // one value has no spread
  return fmt::format(",{},{},{},{},{}\n", csv_number(of.mean), std, csv_number(of.median),
                     csv_number(of.p95), of.count);
}

std::string run_line(const std::string& row, const RunStatistics& run, const Quantity& quantity) {
  if (quantity.timed && !run.timed()) return {};
  const Figure figure = run.figure(quantity);
  if (!figure.value) return {};
  const std::string line = fmt::format("{},{},{},{},{}", row, run.run().repetition, quantity.key,
                                       quantity.unit, csv_number(*figure.value));
  return line + (is_summarized(quantity) ? summary_text(run[quantity].steps) : ",,,,,\n");
}

std::string row_line(const std::string& row, const RowFigure& figure, const Quantity& quantity) {
  if (!figure.value) return {};
  const std::string line =
      fmt::format("{},all,{},{},{}", row, quantity.key, quantity.unit, csv_number(*figure.value));
  const bool summarized = !quantity.compares && figure.runs.count > 0;
  return line + (summarized ? summary_text(figure.runs) : ",,,,,\n");
}

}  // namespace

std::string collectives_csv(const std::vector<Row>& rows) {
  std::string out =
      "row,label,run,collective,of,bytes,asked_ms,started_ms,ended_ms,waited_ms,exposed_ms,time_ms,"
      "link_ms,limit\n";
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!row.measured() || row.ranks.front().timeline.empty()) continue;
    const auto ranks = mapped(row.ranks, [](const RankResult& rank) -> const StepTimeline* {
      return &rank.timeline.back();
    });
    const auto since_begin = [&](std::int64_t ns) { return to_ms(ns - ranks.front()->begin_ns); };
    for (const LimitedCollective& each : limits_of(ranks, row.ranks.front().link)) {
      const CollectiveRecord& record = each.record;
      out += fmt::format(
          "{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{}\n", i + 1,
          csv_field(names.names[i]), row.repetition, name_of(record.kind), csv_field(record.label),
          record.bytes, since_begin(record.enqueue_ns), since_begin(record.start_ns),
          since_begin(record.end_ns), each.waited_ms, each.exposed_ms, each.time_ms,
          each.link_ms ? fmt::format("{:.3f}", *each.link_ms) : "", name_of(each.limit));
    }
  }
  return out;
}

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

std::string csv_of(const TextTable& table) {
  const auto title = [](const TextTable::Column& column) { return csv_field(column.title); };
  const auto text = [](const TextTable::Cell& cell) { return csv_field(cell.text); };
  std::string out = list_text(mapped(table.columns, title), ",") + "\n";
  for (const auto& line : table.lines) out += list_text(mapped(line.cells, text), ",") + "\n";
  return out;
}

void write_steps_csv(const std::vector<Row>& rows, const TextSink& sink) {
  std::vector<std::pair<const ExperimentKind*, const Quantity*>> columns;
  sink("row,label,run,emulated,rank,step,warmup");
  for (const ExperimentKind* kind : kinds_of(rows)) {
    for (const Quantity& quantity : kind->quantities()) {
      if (!quantity.measured()) continue;
      columns.emplace_back(kind, &quantity);
      sink("," + quantity.key);
    }
  }
  sink("\n");
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string label = csv_field(names.names[i]);
    for (const RankResult& rank : rows[i].ranks) {
      for (const Sample& sample : rank.samples) {
        sink(fmt::format("{},{},{},{},{},{},{}", i + 1, label, rows[i].repetition,
                         rows[i].emulated ? 1 : 0, rank.rank, sample.step, sample.warmup ? 1 : 0));
        for (const auto& [kind, quantity] : columns) {
          sink("," + (kind == rows[i].kind ? sample.text(*quantity) : ""));
        }
        sink("\n");
      }
    }
  }
}

std::string summary_csv(const TableLines& table) {
  std::string out = "row,label,run,quantity,unit,figure,mean,std,median,p95,n\n";
  for (const TableLine& line : table.lines()) {
    const ExperimentKind* kind = table.rows()[line.first].kind;
    if (kind == nullptr) continue;
    const std::string row = fmt::format("{},{}", line.first + 1, csv_field(line.name));
    for (const Quantity& quantity : kind->quantities()) {
      if (!quantity.compares) {
        for (const RunStatistics* run : line.runs) out += run_line(row, *run, quantity);
        if (line.count == 1 && !line.runs.empty()) continue;  // the run is the row
      }
      out += row_line(row, table.figure(line, *kind, quantity), quantity);
    }
  }
  return out;
}

}  // namespace ddprun
