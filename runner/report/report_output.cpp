// The formats of a report.
#include "runner/report/report_output.h"

#include "ddprun/base/json.h"
#include "runner/report/csv_files.h"
#include "runner/report/memory_table.h"
#include "runner/report/report_table.h"

namespace ddprun {

std::string report_output(ReportFormat format, const ResultContext& context,
                          const TableLines& table, const Terminal& terminal, bool with_memory) {
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
  std::string out = terminal_report(table, terminal);
  const TextTable memory = with_memory ? memory_table(table) : TextTable();
  if (!memory.lines.empty()) {
    out += "\n" + memory.render(terminal.width, terminal.colour) + memory_remarks(table) + "\n";
  }
  return out;
}

}  // namespace ddprun
