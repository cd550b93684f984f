// The section `report:`, held against the sweep and the table; the base of each point of a sweep.
#include "ddprun/config/report_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/options.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/options_io.h"
#include "ddprun/result/comparison.h"
#include "ddprun/result/experiment_kind.h"

namespace ddprun {

namespace {

constexpr const char* kPivotUsage =
    "report: {pivot: {rows: context_length, columns: strategy, value: step_ms}}";

/// Every row must have a cell of its own.
void check_all_named(const PivotConfig& pivot, const ConfigNode& document,
                     const std::vector<SweptValues>& points) {
  const std::vector<std::string> keys = swept_keys(points);
  for (const std::string& key : keys) {
    const auto times = std::ranges::count(pivot.rows, key) + std::ranges::count(pivot.columns, key);
    if (times == 1 || (times == 0 && values_of(key, points).size() == 1)) continue;
    throw ConfigError(
        {.what = "report.pivot must name each swept key once, in rows or in columns",
         .where = origin_of(document, "report.pivot"),
         .got = times == 0 ? "no " + key : key + " twice",
         .expected = fmt::format("each of {}", fmt::join(keys, ", ")),
         .hint = "rows and columns take lists: rows: [batch_per_rank, context_length]"});
  }
}

/// The title of the column that has it, or whose quantity has that key.
std::string title_of(const std::string& name, const std::string& where,
                     const ExperimentKind& kind) {
  std::vector<std::string> titles;
  for (const Quantity& quantity : kind.quantities()) {
    if (quantity.title.empty()) continue;
    if (name == quantity.key) return quantity.title;
    titles.push_back(quantity.title);
  }
  titles.emplace_back("proof");
  if (std::ranges::count(titles, name) > 0) return name;
  throw ConfigError(
      {.what = "report names a column that the table does not have",
       .where = where,
       .got = name,
       .expected = fmt::format("of {}", fmt::join(titles, ", ")),
       .hint = did_you_mean(name, titles, "docs/measurement.md says what each column is")});
}

void check_timeline(const ReportConfig& config, const ConfigNode& document, std::size_t rows) {
  for (const std::int64_t number : config.timeline) {
    if (static_cast<std::size_t>(number) <= rows) continue;
    throw ConfigError(
        {.what = "report.timeline names a row that the table does not have",
         .where = origin_of(document, "report.timeline"),
         .got = std::to_string(number),
         .expected = fmt::format("1 to {}, the rows of the sweep", rows),
         .hint = "rows stand in the order of the sweep; its last key varies fastest"});
  }
}

void complete_pivot(PivotConfig& pivot, const ConfigNode& document, const ExperimentKind& kind,
                    const std::vector<SweptValues>& points) {
  const int given = !pivot.rows.empty() + !pivot.columns.empty() + !pivot.value.empty();
  if (given == 0) return;
  if (given < 3) {
    throw ConfigError({.what = "report.pivot needs rows, columns and value",
                       .where = origin_of(document, "report.pivot"),
                       .got = fmt::format("no {}", pivot.rows.empty()      ? "rows"
                                                   : pivot.columns.empty() ? "columns"
                                                                           : "value"),
                       .expected = "all three",
                       .hint = kPivotUsage});
  }
  for (const auto& [place, keys] : {std::pair("report.pivot.rows", &pivot.rows),
                                    std::pair("report.pivot.columns", &pivot.columns)}) {
    for (std::string& key : *keys) key = swept_key(key, points, origin_of(document, place));
  }
  check_all_named(pivot, document, points);
  const std::string where = origin_of(document, "report.pivot.value");
  for (std::string& value : pivot.value) value = title_of(value, where, kind);
}

void declare_pivot(Options& o, PivotConfig& c) {
  o.option("rows", &c.rows,
           "swept keys whose values are its rows; the last part of a key is enough");
  o.option("columns", &c.columns, "swept keys whose values are its columns");
  o.option("value", &c.value, "columns of the table, by title or key, whose figures are its cells");
}

/// Turns that begin in any case: rows are compared from then on.
constexpr auto kFirstTurns = static_cast<std::int64_t>(Comparison::kLeastRuns);

void check_open(const ReportConfig& config, const ConfigNode& document) {
  const std::int64_t first = config.minutes > 0 ? kFirstTurns : ReportConfig::kLeastForWidth;
  if (!config.open() || config.repeats > first) return;
  throw ConfigError(
      {.what = "report.until and report.minutes need turns to choose from",
       .where = origin_of(document, "report.repeats"),
       .got = fmt::format("report.repeats {}", config.repeats),
       .expected = fmt::format("more than {}, or none", first),
       .hint = "an interval's width is asked from six turns on, the time from three"});
}

constexpr const char* kUsage = "report: {baseline: {precision: fp32}}";

/// The swept key that stands there, and its value.
std::pair<std::string, std::string> choice(const std::string& name, const ConfigNode& value,
                                           const std::vector<SweptValues>& points) {
  const std::string key = swept_key(name, points, value.key_origin);
  const std::string label = label_of(value);
  const std::vector<std::string> known = values_of(key, points);
  if (contains(known, label)) return {key, label};
  throw ConfigError({.what = "report.baseline has a value that is not swept",
                     .where = value.origin,
                     .got = key + "=" + label,
                     .expected = list_text(known),
                     .hint = "write the value as it stands under `sweep:`"});
}

SweptValues chosen(const ConfigNode& document, const std::vector<SweptValues>& points) {
  const ConfigNode* report = document.find("report");
  const ConfigNode* baseline = report == nullptr ? nullptr : report->find("baseline");
  if (baseline == nullptr) return {};
  if (baseline->kind != ConfigNode::Kind::map) {
    throw ConfigError({.what = "report.baseline must be a mapping",
                       .where = baseline->origin,
                       .got = compact(*baseline),
                       .expected = "swept keys, each with one of its values",
                       .hint = kUsage});
  }
  return mapped(baseline->map,
                [&](const auto& pair) { return choice(pair.first, pair.second, points); });
}

/// The last swept key with several values, at its first one.
SweptValues natural(const std::vector<SweptValues>& points) {
  const std::vector<std::string> keys = swept_keys(points);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const std::vector<std::string> values = values_of(*key, points);
    if (values.size() > 1) return {{*key, values.front()}};
  }
  return {};
}

SweptValues with(SweptValues point, const SweptValues& fixed) {
  for (const auto& [key, value] : fixed) {
    for (auto& [swept, own] : point) {
      if (swept == key) own = value;
    }
  }
  return point;
}

std::string words_of(const SweptValues& fixed, const std::vector<SweptValues>& points) {
  std::vector<std::string> same;
  for (const std::string& key : swept_keys(points)) {
    const bool is_fixed = contains(std::views::keys(fixed), key);
    if (!is_fixed && values_of(key, points).size() > 1) same.push_back(key);
  }
  const std::string words =
      list_text(mapped(fixed, [](const auto& pair) { return pair.first + "=" + pair.second; }));
  return same.empty() ? words : fmt::format("{} of the same {}", words, fmt::join(same, ", "));
}

}  // namespace

void declare_options(Options& o, ReportConfig& c) {
  o.option("repeats", &c.repeats,
           "runs of each row, which take turns with those of the others; from 3 on their "
           "differences are tested",
           {.min = 1, .max = 1000});
  o.option(
      "until", &c.until,
      "turns, six at least, go on until the 95 % interval of each row's difference is so narrow "
      "(0.01: plus and minus 1 %); repeats is then the most, by default 30; 0: as many as repeats",
      {.min = 0, .max = 1});
  o.option("minutes", &c.minutes,
           "no other turn begins after so long, but the first three; 0: no limit", {.min = 0});
  o.option("aa", &c.aa,
           "from 3 runs on: rows that others are compared with run twice in each turn, which shows "
           "what chance alone does");
  o.option("columns", &c.columns,
           "columns of summary.md, summary.tex and --format markdown, by title or key, besides "
           "the rows' names, and the last to go on a narrow terminal; empty: all, of summary.tex "
           "what fits a page");
  o.option("timeline", &c.timeline,
           "numbers of the table's rows that timeline.svg draws, 1 is the first; empty: the first "
           "eight that communicate",
           {.min = 1});
  o.option("html", &c.html,
           "also write report.html, tables and charts as a page for a browser (`ddprun report`)");
  o.section("pivot", "figures by swept keys, as a table of its own",
            [&c](Options& pivot) { declare_pivot(pivot, c.pivot); });
}

ReportConfig read_report(const ConfigNode& document) {
  ReportConfig config;
  const ConfigNode* report = document.find("report");
  if (report == nullptr) return config;
  read_options(*report, "report", [&config](Options& o) { declare_options(o, config); },
               {"baseline"});
  if (config.open() && report->find("repeats") == nullptr) config.repeats = ReportConfig::kMostOpen;
  return config;
}

void complete_report(ReportConfig& config, const ConfigNode& document, const ExperimentKind& kind,
                     const std::vector<SweptValues>& points) {
  check_open(config, document);
  check_timeline(config, document, points.size());
  const std::string where = origin_of(document, "report.columns");
  for (std::string& column : config.columns) column = title_of(column, where, kind);
  complete_pivot(config.pivot, document, kind, points);
}

Baseline find_baseline(const ConfigNode& document, const std::vector<SweptValues>& points) {
  SweptValues fixed = chosen(document, points);
  if (fixed.empty()) fixed = natural(points);
  if (fixed.empty()) return {};
  std::map<SweptValues, std::size_t> first;  // two points may look the same
  for (std::size_t i = 0; i < points.size(); ++i) first.emplace(points[i], i);
  Baseline baseline{{}, words_of(fixed, points)};
  for (const SweptValues& point : points) baseline.of_point.push_back(first.at(with(point, fixed)));
  return baseline;
}

}  // namespace ddprun
