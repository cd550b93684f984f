// Accounts as a table, CSV and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/account.h"
#include "runner/report/report_output.h"
#include "runner/report/terminal.h"

namespace ddprun {

struct AccountLine {
  std::string label;
  Account account;
  std::optional<double> memory_bytes = {};  ///< that a rank has; empty: nobody said
  std::optional<RankSpeed> speed = {};      ///< likewise
  std::string yaml = {};  ///< of a file, what makes this row of it; empty: it has no other row

  /// Bytes that are left of the memory; negative: that are missing. Empty: it is not known.
  std::optional<double> left_bytes() const;
  /// Empty: it is not known.
  std::optional<StepTime> time() const;
  /// Of all ranks. There is a time().
  double tokens_per_s() const;
  /// Of a rank in a step: from so many on computing takes as long as communication, which does not
  /// depend on them. There is a time().
  double least_tokens() const;
};

/// The most tokens a second of those that fit, as far as memory is known; null: there is none.
const AccountLine* fastest(const std::vector<AccountLine>& lines);

/// In 1e6 bytes (table) or bytes. A category that is no line's is left out of the table. Below
/// times stand, in a table and in Markdown, up to how many of the ranks each experiment is bound by
/// computing, and the fastest line with its YAML.
std::string account_output(const std::vector<AccountLine>& lines, ReportFormat format,
                           const Terminal& terminal);

}  // namespace ddprun
