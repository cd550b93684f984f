// Accounts as a table, CSV and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/comm/group/link.h"
#include "ddprun/result/account.h"
#include "runner/report/report_format.h"
#include "runner/report/terminal.h"

namespace ddprun {

struct AccountLine {
  std::string label;
  Account account;
  std::optional<double> memory_bytes = {};  ///< that a rank has; empty: nobody said
  std::optional<Link> link = {};            ///< likewise
};

/// In 1e6 bytes (table) or bytes. A category that is no line's is left out of the table.
std::string account_output(const std::vector<AccountLine>& lines, ReportFormat format,
                           const Terminal& terminal);

/// Milliseconds of the step's collectives one after another.
double communication_ms(const Account& account, const Link& link);

}  // namespace ddprun
