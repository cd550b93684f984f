// The options of the section `report:`.
#include "ddprun/config/report_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/options_io.h"
#include "ddprun/result/experiment_kind.h"

namespace ddprun {

void declare_options(Options& o, ReportConfig& c) {
  o.option("repeats", &c.repeats,
           "runs of each row, which take turns with those of the others; from 3 on their "
           "differences are tested",
           {.min = 1, .max = 1000});
  o.option("columns", &c.columns,
           "titles of the columns of summary.md, summary.tex and --format markdown, besides the "
           "rows' names; empty: all, of summary.tex what fits a page");
}

ReportConfig read_report(const ConfigNode& document) {
  ReportConfig config;
  const ConfigNode* report = document.find("report");
  if (report == nullptr || report->kind != ConfigNode::Kind::map) return config;
  read_options(*report, "report", [&config](Options& o) { declare_options(o, config); },
               {"baseline"});
  return config;
}

void check_columns(const ReportConfig& config, const ConfigNode& document,
                   const ExperimentKind& kind) {
  std::vector<std::string> titles;
  for (const Quantity& quantity : kind.quantities()) {
    if (!quantity.title.empty()) titles.push_back(quantity.title);
  }
  titles.emplace_back("proof");
  for (const std::string& column : config.columns) {
    if (std::ranges::count(titles, column) > 0) continue;
    const std::string near = nearest(column, titles);
    throw ConfigError({.what = "report.columns names a column that the table does not have",
                       .where = origin_of(document, "report.columns"),
                       .got = column,
                       .expected = fmt::format("of {}", fmt::join(titles, ", ")),
                       .hint = near.empty() ? "docs/measurement.md says what each column is"
                                            : "did you mean \"" + near + "\"?"});
  }
}

}  // namespace ddprun
