// The formats of a report.
#include "runner/report/report_output.h"

#include "runner/report/csv_files.h"
#include "runner/report/memory_table.h"
#include "runner/report/operator_tables.h"
#include "runner/report/pivot.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"

namespace ddprun {

std::string report_output(ReportFormat format, const ResultContext& context,
                          const TableLines& table, const Terminal& terminal, bool with_profile) {
  switch (format) {
    case ReportFormat::table:
      break;
    case ReportFormat::markdown:
      return report_markdown(context, table);
    case ReportFormat::csv:
      return summary_csv(table);
    case ReportFormat::json: {
      std::string text;
      write_result_json(context, table, [&text](std::string_view part) { text += part; });
      return text;
    }
  }
  std::string out = terminal_report(table, terminal, context.report.columns);
  if (const PivotConfig& pivot = context.report.pivot; !pivot.empty()) {
    out += "\n" + pivot_title(pivot) + ":\n" +
           pivot_table(pivot, context.points, table).render(terminal.width, terminal.colour);
  }
  if (!with_profile) return out;
  for (const TextTable& each : {memory_table(table), memory_category_table(table),
                                operator_sum_table(table), operator_table(table)}) {
    if (!each.lines.empty()) out += "\n" + each.render(terminal.width, terminal.colour) + "\n";
  }
  for (const auto& sentences : {memory_remarks(table), saved_words(table), operator_words(table)}) {
    for (const std::string& words : sentences) out += words + "\n";
  }
  return out;
}

}  // namespace ddprun
