// Finds the base of each point of a sweep.
#include "ddprun/config/baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr const char* kUsage = "report: {baseline: {precision: fp32}}";

/// The different values of a swept key, in the order of the sweep; empty: it is not swept.
std::vector<std::string> values_of(const std::string& key, const std::vector<SweptValues>& points) {
  std::vector<std::string> values;
  std::set<std::string> known;
  for (const SweptValues& point : points) {
    for (const auto& [swept, value] : point) {
      if (swept == key && known.insert(value).second) values.push_back(value);
    }
  }
  return values;
}

std::vector<std::string> swept_keys(const std::vector<SweptValues>& points) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : points.front()) keys.push_back(key);
  return keys;
}

void check_choice(const std::string& key, const ConfigNode& value,
                  const std::vector<SweptValues>& points) {
  const std::vector<std::string> known = values_of(key, points);
  const std::string label = label_of(value);
  if (known.empty()) {
    const std::vector<std::string> keys = swept_keys(points);
    throw ConfigError(
        {.what = "report.baseline names a key that is not swept",
         .where = value.key_origin,
         .got = key,
         .expected = keys.empty() ? "a sweep" : fmt::format("{}", fmt::join(keys, ", ")),
         .hint = "remove it; on the command line: --set 'report={}'"});
  }
  if (std::find(known.begin(), known.end(), label) == known.end()) {
    throw ConfigError({.what = "report.baseline has a value that is not swept",
                       .where = value.origin,
                       .got = key + "=" + label,
                       .expected = fmt::format("{}", fmt::join(known, ", ")),
                       .hint = "write the value as it stands under `sweep:`"});
  }
}

/// What `report.baseline` says.
SweptValues chosen(const ConfigNode& document, const std::vector<SweptValues>& points) {
  const ConfigNode* report = document.find("report");
  if (report == nullptr) return {};
  const ConfigNode* baseline = report->find("baseline");
  const bool is_map = report->kind == ConfigNode::Kind::map;
  if (baseline == nullptr && is_map) return {};
  if (baseline == nullptr || baseline->kind != ConfigNode::Kind::map) {
    const ConfigNode& wrong = baseline == nullptr ? *report : *baseline;
    throw ConfigError({.what = "report.baseline must be a mapping",
                       .where = wrong.origin,
                       .got = compact(wrong),
                       .expected = "swept keys, each with one of its values",
                       .hint = kUsage});
  }
  SweptValues values;
  for (const auto& [key, value] : baseline->map) {
    check_choice(key, value, points);
    values.emplace_back(key, label_of(value));
  }
  return values;
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
  std::vector<std::string> said;
  for (const auto& [key, value] : fixed) said.push_back(key + "=" + value);
  std::vector<std::string> same;
  for (const std::string& key : swept_keys(points)) {
    const bool is_fixed = std::any_of(fixed.begin(), fixed.end(),
                                      [&key](const auto& pair) { return pair.first == key; });
    if (!is_fixed && values_of(key, points).size() > 1) same.push_back(key);
  }
  const std::string words = fmt::format("{}", fmt::join(said, ", "));
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
  for (const SweptValues& point : points) {
    baseline.of_point.push_back(first.at(with(point, fixed)));
  }
  return baseline;
}

}  // namespace ddprun
