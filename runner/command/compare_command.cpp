// ddprun compare: results of different times; ddprun explain: what one says.
#include <fmt/format.h>

#include <iostream>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "runner/command/commands.h"
#include "runner/compare/result_comparison.h"
#include "runner/report/report_output.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace {

/// "3%" or "0.03". Throws ConfigError.
double threshold_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  std::size_t read = 0;
  double value = -1;
  try {
    value = std::stod(number, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  if (read != 0 && read == number.size() && value >= 0 && value < (percent ? 1000 : 1)) {
    return percent ? value / 100 : value;
  }
  throw ConfigError({.what = "--threshold needs a share",
                     .where = "--threshold",
                     .got = text,
                     .expected = "as in 3%, or 0.03",
                     .hint = "the status is 3 if a row is slower than that beyond noise"});
}

/// Says which rows are slower than `threshold`. Returns the status.
int judged(const ResultComparison& comparison, double threshold) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.comparison && row.comparison->interval) continue;
    std::cerr << fmt::format(
        "not held against the threshold: {}: {}\n", row.name,
        row.comparison ? "it takes 3 runs or more of each (report.repeats)" : row.reason);
  }
  const auto slower = comparison.slower_than(threshold);
  for (const ComparedRow* row : slower) {
    std::cerr << fmt::format("slower by more than {:.3g} %: {}{}\n", threshold * 100, row->name,
                             verdict(*row->comparison));
  }
  return slower.empty() ? kExitDone : kExitSlower;
}

}  // namespace

int compare_command(const Request& request) {
  if (request.paths.size() < 2) {
    throw ConfigError({.what = "there is nothing to compare with",
                       .where = "the command line",
                       .got = fmt::format("{} result", request.paths.size()),
                       .expected = "two results or more: the first, and what came later",
                       .hint = "ddprun compare results/before results/after"});
  }
  const double threshold = request.threshold.empty() ? -1 : threshold_of(request.threshold);
  const StoredResult first = stored_result(request.paths.front());
  nlohmann::json out = nlohmann::json::array();
  int status = kExitDone;
  for (std::size_t i = 1; i < request.paths.size(); ++i) {
    const ResultComparison comparison = compare_results(first, stored_result(request.paths[i]));
    if (request.format == ReportFormat::json) {
      out.push_back(to_json(comparison));
    } else {
      const bool markdown = request.format == ReportFormat::markdown;
      std::cout << (i > 1 ? "\n" : "")
                << comparison_text(comparison, markdown, table_terminal(request.columns).width);
    }
    if (threshold >= 0) status = std::max(status, judged(comparison, threshold));
  }
  if (request.format == ReportFormat::json) std::cout << json_text(out) << "\n";
  return status;
}

int explain_command(const Request& request) {
  for (const std::string& path : request.paths) {
    const StoredResult result = stored_result(path);
    const TableLines lines(result.rows);
    ResultContext context;
    context.name = result.name;
    std::cout << printable_line(result.file.string()) << ":\n"
              << report_output(request.format, context, lines, table_terminal(request.columns),
                               request.verbosity > 0);
  }
  return kExitDone;
}

}  // namespace ddprun
