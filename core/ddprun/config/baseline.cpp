// Finds the base of each point of a sweep.
#include "ddprun/config/report_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

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
