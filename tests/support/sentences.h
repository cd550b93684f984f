// Rows with made-up numbers, and the sentences below their table.
#pragma once

#include <string>
#include <vector>

#include "runner/report/report_lines.h"
#include "runner/report/report_table.h"
#include "runner/report/table_lines.h"
#include "support/report_rows.h"

namespace ddprun::test {

/// The runs of a row: each with steps of one length.
inline std::vector<Row> runs_of(const std::string& label, const std::vector<double>& steps_ms) {
  std::vector<Row> rows;
  for (const double step_ms : steps_ms) {
    Row row = known_row(label);
    row.repetition = row.round = static_cast<std::int64_t>(rows.size()) + 1;
    row.config = {{"strategy", label}, {"precision", "fp32"}, {"world", {{"size", 2}}}};
    set_all(row, training().step_ms, step_ms);
    set_all(row, training().exposed_ms, 10);
    set_all(row, training().overlapped_ms, 0);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// One table, whose first row is the base of all.
inline std::vector<Row> table_of(const std::vector<std::vector<Row>>& parts) {
  std::vector<Row> rows;
  for (const std::vector<Row>& part : parts) rows.insert(rows.end(), part.begin(), part.end());
  for (Row& row : rows) row.baseline = rows.front().fingerprint;
  return rows;
}

inline std::vector<std::string> sentences(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings_of(TableLines(rows))) texts.push_back(finding.text);
  return texts;
}

inline std::vector<std::string> line_texts(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const ReportLine& line : report_lines(TableLines(rows))) texts.push_back(line.text);
  return texts;
}

inline std::string markdown_of(const std::vector<Row>& rows) {
  return report_table(TableLines(rows)).markdown();
}

}  // namespace ddprun::test
