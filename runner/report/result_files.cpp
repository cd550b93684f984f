// Contents of a result folder.
#include "runner/report/result_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/profile/timeline_files.h"
#include "runner/report/csv_files.h"
#include "runner/report/memory_table.h"
#include "runner/report/operator_tables.h"
#include "runner/report/pivot.h"
#include "runner/report/report_lines.h"
#include "runner/report/report_table.h"

namespace ddprun {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Characters beside each other on a page of LaTeX's article, with its gaps between columns.
constexpr int kPageWidth = 80;

TextTable chosen_table(const ResultContext& context, const TableLines& table) {
  const TextTable all = report_table(table);
  return context.report.columns.empty() ? all : all.chosen(context.report.columns);
}

/// The facts of the machine, and what carried the collectives of the rows.
std::vector<std::pair<std::string, std::string>> environment_of(const ResultContext& context,
                                                                const std::vector<Row>& rows) {
  std::set<std::string> backends;
  std::vector<std::pair<std::string, std::string>> device;  // of rank 0, in the last row
  for (const Row& row : rows) {
    if (!row.measured()) continue;
    backends.insert(row.ranks[0].backend);
    if (!row.ranks[0].device.empty()) device = row.ranks[0].device;
  }
  auto environment = context.environment;
  environment.insert(environment.end(), device.begin(), device.end());
  if (!backends.empty()) environment.emplace_back("backend", list_text(backends, "; "));
  return environment;
}

RowTimeline timeline_of(const std::string& name, const Run& run) {
  RowTimeline out{name};
  for (const RankResult& rank : run.ranks) out.ranks.push_back(&rank.timeline);
  return out;
}

/// Of each run.
std::vector<RowTimeline> all_timelines(const TableLines& table) {
  const std::vector<std::string> names = run_names(table);
  std::vector<RowTimeline> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.push_back(timeline_of(names[i], table.rows()[i]));
  }
  return out;
}

/// Of each line, the first run that was measured.
std::vector<RowTimeline> drawn_timelines(const TableLines& table) {
  std::vector<RowTimeline> out;
  for (const TableLine& line : table.lines()) {
    const std::string name = table.in_sentence(line);
    out.push_back(line.runs.empty() ? RowTimeline{name}
                                    : timeline_of(name, line.runs.front()->run()));
  }
  return out;
}

/// Memory by phase, and where the snapshots lie; empty if no row's memory was looked at.
std::string memory_markdown(const TableLines& lines, const std::vector<std::string>& names) {
  const TextTable table = memory_table(lines);
  const std::vector<Row>& rows = lines.rows();
  if (table.lines.empty()) return {};
  std::string out = "\n## Memory\n\nOf tensors, by phase, in the last warm-up step.\n\n";
  out += table.markdown();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!row.measured() || row.ranks.front().memory_snapshot.empty()) continue;
    if (!row.taken_from.empty()) continue;  // it is there
    out += fmt::format("\nMemory snapshot of {}: {}/{}\n", names[i], row_folder(i + 1),
                       row.ranks.front().memory_snapshot);
  }
  for (const std::string& words : memory_remarks(lines)) out += "\n- " + words + "\n";
  const TextTable categories = memory_category_table(lines);
  if (categories.lines.empty()) return out;
  out +=
      "\nBy what it is, at the peak of the last warm-up step, which was recorded and is slower "
      "than "
      "others:\n\n" +
      categories.markdown();
  for (const std::string& words : saved_words(lines)) out += "\n- " + words;
  return out + "\n";
}

/// What the recorded steps called; empty: none was recorded.
std::string operators_markdown(const TableLines& lines) {
  const TextTable sums = operator_sum_table(lines);
  if (sums.lines.empty()) return {};
  std::string out = "\n## Operators\n\nOf the last warm-up step, on rank 0.\n\n" + sums.markdown() +
                    "\nThose that took longest; `profile/` has all.\n\n" +
                    operator_table(lines).markdown();
  for (const std::string& words : operator_words(lines)) out += "\n- " + words;
  return out + "\n";
}

}  // namespace

json result_head(int schema_version, const std::string& time,
                 const std::vector<std::string>& command_line,
                 const std::vector<std::pair<std::string, std::string>>& environment) {
  return {{"schema_version", schema_version},
          {"ddprun_version", DDPRUN_VERSION},
          {"time", time},
          {"command_line", command_line},
          {"environment", std::map(environment.begin(), environment.end())}};
}

void write_result_json(const ResultContext& context, const TableLines& table,
                       const TextSink& sink) {
  const std::vector<Row>& rows = table.rows();
  const auto environment = environment_of(context, rows);
  json findings = json::array();
  for (const Finding& finding : findings_of(table)) {
    if (!finding.value.is_null()) findings.push_back(finding.value);
  }
  json head = result_head(kResultSchemaVersion, context.time, context.command_line, environment);
  head["name"] = context.name;
  head["table"] = table_json(table);
  head["findings"] = std::move(findings);
  if (!context.report.timeline.empty()) head[kDrawnLines] = context.report.timeline;
  if (!context.report.columns.empty()) head[kChosenColumns] = context.report.columns;
  const std::string text = json_text(head, 1);
  sink(text.substr(0, text.rfind("\n}")));
  sink(",\n \"rows\": [");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sink(i == 0 ? "\n  " : ",\n  ");
    write_row_json(rows[i], sink);
  }
  sink("\n ]\n}\n");
}

std::string report_markdown(const ResultContext& context, const TableLines& table) {
  std::string out = chosen_table(context, table).markdown() + "\n";
  for (const ReportLine& line : report_lines(table)) out += "- " + in_markdown(line.text) + "\n";
  const PivotConfig& pivot = context.report.pivot;
  if (pivot.empty()) return out;
  return out + fmt::format("\n{}:\n\n{}", pivot_title(pivot),
                           pivot_table(pivot, context.points, table).markdown());
}

std::string summary_latex(const ResultContext& context, const TableLines& table) {
  std::vector<std::string> dropped;
  const int width = context.report.columns.empty() ? kPageWidth : 0;
  const std::string out = chosen_table(context, table).fitting(width, &dropped).latex();
  if (dropped.empty()) return out;
  return out + fmt::format("% too wide for a page with: {} (report.columns chooses)\n",
                           fmt::join(dropped, ", "));
}

std::string summary_markdown(const ResultContext& context, const TableLines& table) {
  const std::vector<Row>& rows = table.rows();
  std::string out = fmt::format("# {}\n\n{}\n\n```sh\n{}\n```\n\n", context.name, context.time,
                                list_text(mapped(context.command_line, shell_word), " "));
  out += report_markdown(context, table);
  const std::vector<std::string> names = run_names(table);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].reason.empty()) {
      out += fmt::format("\n{} ({}):\n\n```\n{}\n```\n", in_markdown(names[i]),
                         name_of(rows[i].status), rows[i].reason);
    }
  }
  out += memory_markdown(table, names);
  out += operators_markdown(table);
  out += "\n";
  for (const ExperimentKind* kind : kinds_of(rows)) out += kind->words().table_note + ". ";
  out += "What each column means stands in docs/measurement.md.\n\n## Environment\n\n";
  for (const auto& [key, value] : environment_of(context, rows))
    out += "- " + key + ": " + value + "\n";
  return out;
}

std::string timeline_picture(const TableLines& table, const std::vector<std::int64_t>& chosen) {
  return timeline_svg(drawn_timelines(table), chosen);
}

std::string pivot_latex(const TextTable& pivot) {
  const std::string out = pivot.latex();
  if (pivot.width() <= kPageWidth) return out;
  return "% needs the package graphicx\n\\resizebox{\\textwidth}{!}{%\n" + out + "}\n";
}

std::string row_folder(std::size_t number) { return fmt::format("profile/{:02}", number); }
std::string live_folder(std::size_t number) { return fmt::format("live/{:02}", number); }

void write_row(ResultFolder& folder, const ResultContext& context, std::size_t number,
               const Row& row) {
  const std::vector<Row> rows = {row};
  folder.write(fmt::format("{}/{:02}.json", kRowsFolder, number),
               [&](const TextSink& sink) { write_result_json(context, TableLines(rows), sink); });
  folder.show();
}

fs::path write_result(ResultFolder& folder, const ResultContext& context,
                      const std::vector<Row>& rows) {
  const TableLines table(rows);
  folder.write(kResultFile, [&](const TextSink& sink) {  // first: it has everything
    write_result_json(context, table, sink);
  });
  folder.write("experiment.yaml", context.yaml);
  for (std::size_t i = 0; i < context.resolved_yaml.size(); ++i) {
    folder.write(fmt::format("resolved/{:02}.yaml", i + 1), context.resolved_yaml[i]);
  }
  folder.write("steps.csv", [&](const TextSink& sink) { write_steps_csv(rows, sink); });
  folder.write("summary.csv", summary_csv(table));
  folder.write("summary.tex", summary_latex(context, table));
  if (const PivotConfig& pivot = context.report.pivot; !pivot.empty()) {
    folder.write("pivot.csv", pivot_csv(pivot, context.points, table));
    folder.write("pivot.tex", pivot_latex(pivot_table(pivot, context.points, table)));
  }
  folder.write("collectives.csv", [&](const TextSink& sink) { sink(collectives_csv(rows)); });
  folder.write("timeline.json",
               [&](const TextSink& sink) { write_timeline_json(all_timelines(table), sink); });
  const std::string picture = timeline_picture(table, context.report.timeline);
  if (!picture.empty()) folder.write("timeline.svg", picture);
  folder.write("summary.md", summary_markdown(context, table));
  if (context.page != nullptr)
    folder.write("report.html", context.page(context, table, folder.path("")));
  for (const Row& row : rows) {
    if (!row.measured() || row.ranks[0].topology.empty()) continue;
    folder.write("nccl_topology.xml", row.ranks[0].topology);  // of all rows: they ran in one place
    break;
  }
  const fs::path complete = folder.commit();
  folder.remove(kRowsFolder);
  return complete;
}

}  // namespace ddprun
