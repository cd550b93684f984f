// What changes over the values of a swept number: the share of communication, and the best bucket
// beside the course's closed form.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/experiments/training_findings/training_findings.h"

namespace ddprun::training_findings {

namespace {

using nlohmann::json;

constexpr std::size_t kLeastRows = 3;
/// A share that changes by less is not told.
constexpr double kLeastChange = 0.05;
constexpr const char* kBucket = "strategy.bucket_mb";

/// A row and the number that it was measured at.
struct At {
  double value;
  const RowRuns* row;
};
using Line = std::vector<At>;

/// "/model/context_length" -> "model.context_length"
std::string key_of(std::string pointer) {
  std::ranges::replace(pointer, '/', '.');
  return pointer.substr(1);
}

/// The configuration by pointers to its values; of what a damaged result has, nothing.
json flat_config(const RowRuns& row) {
  const json& config = run_of(row).config;
  return config.is_object() ? config.flatten() : json::object();
}

/// Keys whose values are numbers, and not the same in all rows that have the key.
std::set<std::string> swept_numbers(const Rows& rows) {
  std::set<std::string> swept;
  std::map<std::string, json> first;
  for (const RowRuns& row : rows) {
    const json flat = flat_config(row);
    for (const auto& [pointer, value] : flat.items()) {
      if (value.is_number() && first.emplace(pointer, value).first->second != value) {
        swept.insert(pointer);
      }
    }
  }
  return swept;
}

/// Rows that differ in that key alone, by its value; of three at least.
std::vector<Line> lines_over(const std::string& pointer, const Rows& rows) {
  Groups<Line> groups;
  for (const RowRuns& row : rows) {
    json rest = flat_config(row);
    if (!rest.contains(pointer) || !rest[pointer].is_number()) continue;
    const double value = rest[pointer].get<double>();
    rest.erase(pointer);
    rest.erase("/name");
    groups[json_text(rest)].push_back({value, &row});
  }
  std::vector<Line> lines;
  for (const auto& [rest, rows_of_line] : groups) {
    if (rows_of_line.size() < kLeastRows) continue;
    lines.push_back(rows_of_line);
    std::ranges::stable_sort(lines.back(), {}, &At::value);
  }
  return lines;
}

double share_of(const RowRuns& row) { return mean_figure(row, training().exposed_share); }

/// Nothing, unless the share goes one way from each row to the next.
Finding share_over(const std::string& key, const Line& line) {
  const auto less = [](const At& a, const At& b) { return share_of(*a.row) < share_of(*b.row); };
  const double first = share_of(*line.front().row), last = share_of(*line.back().row);
  const bool rises = std::ranges::is_sorted(line, less);
  const bool falls = std::is_sorted(line.rbegin(), line.rend(), less);
  if ((!rises && !falls) || std::abs(last - first) < kLeastChange) return {};
  const RowRuns& from = *line.front().row;
  const RowRuns& to = *line.back().row;
  const auto grows = [&](const Quantity& quantity) {
    return mean_figure(to, quantity) / mean_figure(from, quantity);
  };
  const double bytes = grows(training().bytes), step = grows(training().step_ms);
  const std::string text = fmt::format(
      "from {} to {} the exposed share of the step {} from {} to {} %: {} {:g} to {:g}, "
      "{:.2f} times the bytes, {:.2f} times the step",
      name_of(from), name_of(to), rises ? "rises" : "falls", percent_text(first),
      percent_text(last), key, line.front().value, line.back().value, bytes, step);
  return finding("trend", text, to,
                 {{"base", name_of(from)},
                  {"key", key},
                  {"first", first},
                  {"last", last},
                  {"bytes_ratio", bytes},
                  {"step_ratio", step}});
}

/// CS336, assignment 2: with s bytes of gradients, an overhead o a call and a bandwidth w, what is
/// left behind backward is w's last bucket and the calls: b / w + o s / b, least at sqrt(s o w).
Finding best_bucket(const Line& line) {
  const auto best =
      std::ranges::min_element(line, {}, [](const At& at) { return step_of(*at.row); });
  const LinkCosts& link = run_of(*best->row).ranks.front().link;
  const auto cost = std::ranges::find(link, CollectiveKind::all_reduce, &CollectiveCost::kind);
  // The line through four sizes may meet zero bytes at no time: the sentence would say 0 MB.
  if (cost == link.end() || cost->latency_us <= 0) return {};
  const double bytes = mean_figure(*best->row, training().bytes);
  const double closed_mb = std::sqrt(bytes * cost->latency_us * 1e-6 * cost->gb_per_s * 1e9) * 1e-6;
  const std::string text = fmt::format(
      "buckets: the shortest of {} steps has {:g} MB; sqrt(s o w) is {:.2g} MB, of {:.1f} MB of "
      "gradients, {:.0f} µs a call and {:.3g} GB/s",
      line.size(), best->value, closed_mb, bytes * 1e-6, cost->latency_us, cost->gb_per_s);
  return finding("best_bucket", text, *best->row,
                 {{"measured_mb", best->value}, {"closed_form_mb", closed_mb}});
}

}  // namespace

Sorts of_trends(const Rows& rows) {
  Sorts out(2);
  for (const std::string& pointer : swept_numbers(rows)) {
    const std::string key = key_of(pointer);
    for (const Line& line : lines_over(pointer, rows)) {
      if (mean_figure(*line.front().row, training().collectives) <= 0) continue;
      out[0].push_back(share_over(key, line));
      if (key == kBucket) out[1].push_back(best_bucket(line));
    }
  }
  return out;
}

}  // namespace ddprun::training_findings
