// One line for each experiment and number of ranks.
#include "runner/report/account_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/collective.h"
#include "runner/report/report_table.h"
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

/// By category at the peak of the steps.
std::vector<MemoryCategory> categories_of(const std::vector<AccountLine>& lines) {
  std::vector<MemoryCategory> out;
  for (const MemoryCategory category : kChoices<MemoryCategory>) {
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
  const bool times = !lines.empty() && lines.front().speed.has_value();
  TextTable table;
  table.columns = {{"experiment", false}, {"ranks"}};
  int drop_order = 9;
  for (const MemoryCategory category : categories) {  // what a step holds all the time goes last
    table.columns.push_back({name_of(category), true, drop_order++});
  }
  table.columns.insert(table.columns.end(),
                       {{"peak MB"}, {"in", false, 4}, {"set-up MB", true, 8}});
  if (memory) table.columns.insert(table.columns.end(), {{"fits", false}, {"left MB", true, 3}});
  table.columns.insert(table.columns.end(), {{"collectives", true, 7}, {"MB/step", true, 6}});
  if (times) {
    table.columns.insert(table.columns.end(), {{"computing ms", true, 1},
                                               {"communication ms", true, 2},
                                               {"exposed ms"},
                                               {"step ms"},
                                               {"least tokens", true, 5}});
  }
  for (const AccountLine& each : lines) {
    const Account& account = each.account;
    std::vector<std::string> cells = {each.label, std::to_string(account.ranks)};
    const PhaseAccount* const peak = account.peak(/*steps_alone=*/true);
    if (peak == nullptr) {
      table.lines.push_back({{{each.label}}, {"not known: " + account.unknown}});
      continue;
    }
    const auto add = [&cells](std::string text) { cells.push_back(std::move(text)); };
    for (const MemoryCategory category : categories) {
      add(megabytes(static_cast<double>(peak->at_peak[category])));
    }
    add(megabytes(static_cast<double>(peak->at_peak.sum())));
    add(peak->phase);
    add(megabytes(static_cast<double>(account.phases.front().at_peak.sum())));
    if (const auto left = each.left_bytes()) {
      add(*left >= 0 ? "yes" : "no");
      add(megabytes(*left));
    }
    add(std::to_string(collectives_of(account)));
    add(megabytes(static_cast<double>(payload_of(account))));
    if (const auto time = each.time()) {
      for (const double seconds :
           {time->computing_s, time->communication_s, time->exposed_s, time->step_s()}) {
        add(fmt::format("{:.3f}", seconds * 1e3));
      }
      add(fmt::format("{:.0f}", std::ceil(each.least_tokens())));
    }
    table.add(cells);
  }
  return table;
}

json json_of(const AccountLine& line, bool is_fastest) {
  json out = to_json(line.account);
  out["label"] = line.label;
  out["payload_bytes"] = payload_of(line.account);
  out["wire_bytes"] = line.account.wire_bytes();
  if (const auto left = line.left_bytes()) {
    out["memory_bytes"] = *line.memory_bytes;
    out["fits"] = *left >= 0;
    out["left_bytes"] = *left;
  }
  if (const auto time = line.time()) {
    out["computing_ms"] = time->computing_s * 1e3;
    out["communication_ms"] = time->communication_s * 1e3;
    out["exposed_ms"] = time->exposed_s * 1e3;
    out["step_ms"] = time->step_s() * 1e3;
    out["tokens_per_s"] = line.tokens_per_s();
    out["least_tokens"] = line.least_tokens();
    out["fastest"] = is_fastest;
  }
  return out;
}

/// Of each experiment on several numbers of ranks: up to how many it is bound by computing.
std::string bound_words(const std::vector<AccountLine>& lines) {
  std::map<std::string, std::map<int, bool>> by_label;  // of its numbers of ranks, whether it is
  for (const AccountLine& each : lines) {
    const auto time = each.time();
    if (time) by_label[each.label][each.account.ranks] = time->computing_s >= time->communication_s;
  }
  std::string out;
  for (const auto& [label, bound] : by_label) {
    if (bound.size() < 2) continue;
    const auto most =
        std::find_if(bound.rbegin(), bound.rend(), [](auto& each) { return each.second; });
    out += most == bound.rend()
               ? fmt::format("{}: communication takes longer than computing\n", label)
               : fmt::format("{}: computing takes longer than communication on up to {}\n", label,
                             counted(most->first, "rank"));
  }
  return out;
}

std::string csv_of(const std::vector<AccountLine>& lines) {
  std::string out = "label,ranks,phase,category,bytes\n";
  for (const AccountLine& line : lines) {
    const std::string label = csv_field(line.label);
    for (const PhaseAccount& phase : line.account.phases) {
      for (const MemoryCategory category : kChoices<MemoryCategory>) {
        out += fmt::format("{},{},{},{},{}\n", label, line.account.ranks, phase.phase,
                           name_of(category), phase.at_peak[category]);
      }
    }
  }
  return out;
}

/// Up to how many of the ranks each experiment is bound by computing, and the fastest line with its
/// YAML. Empty where no time is known.
std::string account_words(const std::vector<AccountLine>& lines) {
  std::string out = bound_words(lines);
  if (std::ranges::none_of(lines,
                           [](const AccountLine& each) { return each.time().has_value(); })) {
    return out;
  }
  const auto& memory = lines.front().memory_bytes;
  const std::string fitting =
      memory ? fmt::format(" that fits in {:.4g} GB", *memory * 1e-9) : std::string();
  const AccountLine* const best = fastest(lines);
  if (best == nullptr) return out + "No row" + fitting.substr(5) + "\n";
  out += fmt::format("The fastest row{}: {} on {}, {:.3f} ms a step, {:.0f} tokens/s\n", fitting,
                     best->label, counted(best->account.ranks, "rank"),
                     best->time()->step_s() * 1e3, best->tokens_per_s());
  return best->yaml.empty() ? out : out + "\n" + best->yaml;
}

}  // namespace

std::optional<double> AccountLine::left_bytes() const {
  const PhaseAccount* const peak = account.peak();
  if (!memory_bytes || peak == nullptr) return {};
  return *memory_bytes - static_cast<double>(peak->at_peak.sum());
}

std::optional<StepTime> AccountLine::time() const {
  if (!speed || !account.unknown.empty()) return {};
  return step_time(account, *speed);
}

double AccountLine::tokens_per_s() const {
  return static_cast<double>(account.tokens * account.ranks) / time()->step_s();
}

double AccountLine::least_tokens() const {
  const StepTime takes = *time();
  return static_cast<double>(account.tokens) * takes.communication_s / takes.computing_s;
}

const AccountLine* fastest(const std::vector<AccountLine>& lines) {
  const AccountLine* best = nullptr;
  for (const AccountLine& each : lines) {
    if (!each.time() || each.left_bytes().value_or(0) < 0) continue;
    if (best == nullptr || each.tokens_per_s() > best->tokens_per_s()) best = &each;
  }
  return best;
}

std::string account_output(const std::vector<AccountLine>& lines, ReportFormat format,
                           const Terminal& terminal) {
  switch (format) {
    case ReportFormat::table:
      break;
    case ReportFormat::markdown:
      return table_of(lines).markdown() + account_words(lines);
    case ReportFormat::csv:
      return csv_of(lines);
    case ReportFormat::json: {
      const AccountLine* const best = fastest(lines);
      const auto each = [best](const AccountLine& line) { return json_of(line, &line == best); };
      return json_text(mapped(lines, each), 2) + "\n";
    }
  }
  std::vector<std::string> dropped;
  const std::string table = with_names_for(table_of(lines), terminal.width)
                                .render(terminal.width, terminal.colour, &dropped);
  const std::string too_few =
      dropped.empty() ? "" : too_few_columns(terminal.width, dropped) + "\n";
  return table + too_few + account_words(lines);
}

}  // namespace ddprun
