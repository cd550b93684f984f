// One line for each experiment and number of ranks.
#include "runner/report/account_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/comm/group/collective.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

using nlohmann::json;

std::string megabytes(double bytes) { return fmt::format("{:.2f}", bytes * 1e-6); }

std::int64_t collectives_of(const Account& account) {
  std::int64_t count = 0;
  for (const CollectiveAccount& each : account.collectives) count += each.count;
  return count;
}

std::int64_t payload_of(const Account& account) {
  std::int64_t bytes = 0;
  for (const CollectiveAccount& each : account.collectives) bytes += each.count * each.bytes;
  return bytes;
}

/// Bytes that are left of the memory; negative: that are missing.
std::optional<double> left_of(const AccountLine& line) {
  const PhaseAccount* const peak = line.account.peak();
  if (!line.memory_bytes || peak == nullptr) return {};
  return *line.memory_bytes - static_cast<double>(peak->at_peak.sum());
}

/// By category at the peak of the steps.
std::vector<MemoryCategory> categories_of(const std::vector<AccountLine>& lines) {
  std::vector<MemoryCategory> out;
  for (const char* name : kChoiceNames<MemoryCategory>) {
    const auto category = value_named<MemoryCategory>(name);
    const bool any = std::ranges::any_of(lines, [category](const AccountLine& line) {
      const PhaseAccount* const peak = line.account.peak(/*steps_alone=*/true);
      return peak != nullptr && peak->at_peak[category] > 0;
    });
    if (any) out.push_back(category);
  }
  return out;
}

TextTable table_of(const std::vector<AccountLine>& lines) {
  const std::vector<MemoryCategory> categories = categories_of(lines);
  const bool memory = !lines.empty() && lines.front().memory_bytes.has_value();
  const bool link = !lines.empty() && lines.front().link.has_value();
  TextTable table;
  table.columns = {{"experiment", false}, {"ranks"}};
  for (const MemoryCategory category : categories) {
    table.columns.push_back({name_of(category), true, 5});
  }
  table.columns.insert(table.columns.end(), {{"peak MB"}, {"in", false}, {"set-up MB", true, 4}});
  if (memory) table.columns.insert(table.columns.end(), {{"fits", false}, {"left MB"}});
  table.columns.insert(table.columns.end(), {{"collectives", true, 3}, {"MB/step", true, 2}});
  if (link) table.columns.push_back({"communication ms"});
  for (const AccountLine& each : lines) {
    const Account& account = each.account;
    TextTable::Line line{{{each.label}, {std::to_string(account.ranks)}}};
    const PhaseAccount* const peak = account.peak(/*steps_alone=*/true);
    if (peak == nullptr) {
      table.lines.push_back({{{each.label}}, {"not known: " + account.unknown}});
      continue;
    }
    const auto add = [&line](std::string text) { line.cells.push_back({std::move(text)}); };
    for (const MemoryCategory category : categories) {
      add(megabytes(static_cast<double>(peak->at_peak[category])));
    }
    add(megabytes(static_cast<double>(peak->at_peak.sum())));
    add(peak->phase);
    add(megabytes(static_cast<double>(account.phases.front().at_peak.sum())));
    if (const auto left = left_of(each)) {
      add(*left >= 0 ? "yes" : "no");
      add(megabytes(*left));
    }
    add(std::to_string(collectives_of(account)));
    add(megabytes(static_cast<double>(payload_of(account))));
    if (each.link) add(fmt::format("{:.3f}", communication_ms(account, *each.link)));
    table.lines.push_back(std::move(line));
  }
  return table;
}

json json_of(const AccountLine& line) {
  json out = to_json(line.account);
  out["label"] = line.label;
  out["payload_bytes"] = payload_of(line.account);
  out["wire_bytes"] = line.account.wire_bytes();
  if (const auto left = left_of(line)) {
    out["memory_bytes"] = *line.memory_bytes;
    out["fits"] = *left >= 0;
    out["left_bytes"] = *left;
  }
  if (line.link) out["communication_ms"] = communication_ms(line.account, *line.link);
  return out;
}

std::string csv_of(const std::vector<AccountLine>& lines) {
  std::string out = "label,ranks,phase,category,bytes\n";
  for (const AccountLine& line : lines) {
    std::string label = line.label;
    std::ranges::replace(label, '"', '\'');
    for (const PhaseAccount& phase : line.account.phases) {
      for (const char* name : kChoiceNames<MemoryCategory>) {
        out += fmt::format("\"{}\",{},{},{},{}\n", label, line.account.ranks, phase.phase, name,
                           phase.at_peak[value_named<MemoryCategory>(name)]);
      }
    }
  }
  return out;
}

}  // namespace

double communication_ms(const Account& account, const Link& link) {
  double seconds = 0;
  for (const CollectiveAccount& each : account.collectives) {
    seconds += static_cast<double>(each.count) *
               collective_s(each.kind, static_cast<double>(each.bytes), each.ranks, link);
  }
  return seconds * 1e3;
}

std::string account_output(const std::vector<AccountLine>& lines, ReportFormat format,
                           const Terminal& terminal) {
  switch (format) {
    case ReportFormat::table:
      break;
    case ReportFormat::markdown:
      return table_of(lines).markdown();
    case ReportFormat::csv:
      return csv_of(lines);
    case ReportFormat::json: {
      json all = json::array();
      for (const AccountLine& line : lines) all.push_back(json_of(line));
      return json_text(all, 2) + "\n";
    }
  }
  return table_of(lines).render(terminal.width, terminal.colour);
}

}  // namespace ddprun
