// Results that are there. ddprun compare: those of different times; explain: what one says;
// report: the same as a page for a browser.
#include <fmt/format.h>

#include <iostream>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "runner/command/commands.h"
#include "runner/command/out_file.h"
#include "runner/compare/result_comparison.h"
#include "runner/html/html_report.h"
#include "runner/report/report_output.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace {

/// "3%" or "0.03". Throws ConfigError.
double threshold_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const auto value = number_from<double>(percent ? text.substr(0, text.size() - 1) : text);
  if (value && *value >= 0 && *value < (percent ? 1000 : 1)) return percent ? *value / 100 : *value;
  throw ConfigError({.what = "--threshold needs a share",
                     .where = "--threshold",
                     .got = text,
                     .expected = "as in 3%, or 0.03",
                     .hint = "the status is 3 if a row is slower than that beyond noise"});
}

/// Which one it is, and of how many; empty: the user named it.
std::string chosen_words(const StoredResult& result) {
  if (result.among < 2) return {};
  return fmt::format("{}, the latest of {} results", result.json.value("time", "?"), result.among);
}

std::string chosen_line(const StoredResult& result) {
  const std::string words = chosen_words(result);
  return words.empty() ? "" : printable_line(result.name + ": " + words) + "\n";
}

std::vector<std::string> chosen_columns(const nlohmann::json& result) {
  std::vector<std::string> titles;
  for (const nlohmann::json& title : result.value(kChosenColumns, nlohmann::json::array())) {
    if (title.is_string()) titles.push_back(title);
  }
  return titles;
}

/// A row of which nobody can say whether it is slower does not pass for one that is not.
int status_of(const std::vector<ResultComparison>& comparisons) {
  int status = kExitDone;
  for (const ResultComparison& each : comparisons) {
    if (!each.threshold) continue;
    if (each.held() == Held::slower) return kExitSlower;
    if (each.held() == Held::untold) status = kExitFailed;
  }
  return status;
}

void check_compared(const Request& request) {
  if (request.paths.size() < 2) {
    throw ConfigError({.what = "there is nothing to compare with",
                       .where = "the command line",
                       .got = fmt::format("{} result", request.paths.size()),
                       .expected = "two results or more: the first, and what came later",
                       .hint = "ddprun compare results/before results/after"});
  }
}

}  // namespace

int compare_command(const Request& request) {
  check_compared(request);
  std::optional<double> threshold;
  if (!request.threshold.empty()) threshold = threshold_of(request.threshold);
  const StoredResult first = stored_result(request.paths.front());
  std::vector<ResultComparison> comparisons;
  std::string of = chosen_line(first);
  for (auto path = request.paths.begin() + 1; path != request.paths.end(); ++path) {
    const StoredResult later = stored_result(*path);
    of += chosen_line(later);
    comparisons.push_back(compare_results(first, later, threshold));
  }
  const int status = status_of(comparisons);
  if (request.format == ReportFormat::json) {
    const auto one = [](const ResultComparison& each) { return to_json(each); };
    std::cout << json_text({{"comparisons", mapped(comparisons, one)}, {"status", status}}) << "\n";
    return status;
  }
  const bool markdown = request.format == ReportFormat::markdown;
  const Terminal terminal = table_terminal(request.columns);
  // What reads a pipe may look for whole names.
  const int width = terminal.interactive || request.columns ? terminal.width : 0;
  for (const ResultComparison& each : comparisons) {
    std::cout << (&each == comparisons.data() ? "" : "\n")
              << comparison_text(each, markdown, width);
  }
  if (!of.empty()) std::cout << "\n" << of;
  return status;
}

int explain_command(const Request& request) {
  for (const std::string& path : request.paths) {
    const StoredResult result = stored_result(path);
    const TableLines lines(result.rows);
    ResultContext context;
    context.name = result.name;
    context.report.columns = chosen_columns(result.json);
    const std::string words = chosen_words(result);
    // Programs read csv and json: the file's name stands beside them.
    const bool for_people =
        request.format == ReportFormat::table || request.format == ReportFormat::markdown;
    (for_people ? std::cout : std::cerr)
        << printable_line(result.file.string() + (words.empty() ? "" : " (" + words + ")"))
        << ":\n";
    std::cout << report_output(request.format, context, lines, table_terminal(request.columns),
                               request.verbosity > 0);
  }
  return kExitDone;
}

int report_command(const Request& request) {
  std::vector<nlohmann::json> pages;
  const std::string file = request.output.empty() ? "report.html" : request.output;
  std::string of;  // what was chosen of folders
  for (const std::string& path : request.paths) {
    StoredResult stored = stored_result(path);
    refuse_as_out(file, {stored.file.string()});
    of += chosen_line(stored);
    pages.push_back(page_of_result(TableLines(stored.rows), std::move(stored.json),
                                   stored.file.string(), stored.file.parent_path()));
  }
  const std::string page = html_page(pages);
  write_out(file, [&page](const TextSink& sink) { sink(page); });
  words_beside(file) << "report: " << printable_line(file) << "\n" << of;
  return kExitDone;
}

}  // namespace ddprun
