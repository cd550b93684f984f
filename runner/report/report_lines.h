// The sentences below the table.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"

namespace ddprun {

struct ReportLine {
  std::string text;
  /// Whether it says that a row's figures cannot be relied on.
  bool bad = false;
  /// Whether it is what rows say together.
  bool finding = false;
};

/// Says in words what was proved, what was not, and why a figure is missing: one line each.
std::vector<ReportLine> report_lines(const TableLines& table);

}  // namespace ddprun
