// The sentences below the table.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

struct ReportLine {
  std::string text;
  /// The figures of a row are not to be relied on.
  bool bad = false;
};

/// What was proved, in words, and what was not, and which figure is missing why: one line each.
std::vector<ReportLine> report_lines(const std::vector<Row>& rows);

}  // namespace ddprun
