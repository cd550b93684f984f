// What was proved, what diverged, what is missing and why.
#include "runner/report/report_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/result/conditions.h"
#include "ddprun/result/run_load.h"
#include "runner/report/memory_table.h"
#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

struct NamedRow {
  const Row& row;
  const RunStatistics& statistics;
  const std::string& name;
  const std::string& row_name;  ///< without which run of its row it is
};

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (!contains(texts, text)) texts.push_back(text);
}

std::string in_capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Proved, control, and each check that failed: `failures` are those before anything was measured.
void add_proof(const std::vector<NamedRow>& rows, std::vector<ReportLine> failures,
               std::vector<ReportLine>& lines) {
  const bool repeated =
      std::ranges::any_of(rows, [](const NamedRow& each) { return each.row.repetition > 1; });
  std::vector<std::string> checks, controls, declared;
  const std::size_t runs = rows.size() + failures.size();
  std::size_t proved = 0;
  for (const auto& [row, statistics, name, row_name] : rows) {
    const Proof proof = summarize_proof(row);
    if (proof.status == CheckStatus::passed) ++proved;
    if (proof.status == CheckStatus::control) add_once(controls, row_name);
    if (proof.status == CheckStatus::unchecked) {
      failures.push_back({"not proved: " + name + ": no check was made"});
    }
    for (const Check& check : proof.checks) {
      if (check.status == CheckStatus::failed) {
        failures.push_back(
            {fmt::format("NOT PROVED: {}: {}: {}", name, check.name, check.detail), true});
      } else if (proof.status == CheckStatus::declared && check.status == proof.status) {
        add_once(declared, row_name + ": " + check.detail);
      } else if (proof.status == CheckStatus::passed) {
        const auto words = row.kind->words().checks.find(check.name);
        add_once(checks, words == row.kind->words().checks.end() ? check.name : words->second);
      }
    }
  }
  if (proved > 0) {
    lines.push_back(
        {fmt::format("proved in {} of {}: {}", proved, counted(runs, repeated ? "run" : "row"),
                     fmt::join(checks, ", "))});
  }
  for (const std::string& words : declared) {
    lines.push_back({"as declared, which is less than proved: " + words});
  }
  if (!controls.empty()) {
    lines.push_back(
        {fmt::format("control (not synchronized by design): {}", fmt::join(controls, ", "))});
  }
  lines.insert(lines.end(), failures.begin(), failures.end());
}

/// Values that were not finite, and steps that did something worth counting.
void add_steps(const NamedRow& named, std::vector<ReportLine>& lines) {
  const auto& [row, statistics, name, row_name] = named;
  if (const std::string sentence = divergence(row); !sentence.empty()) {
    lines.push_back({"DIVERGED: " + name + ": " + sentence, true});
  }
  for (const Quantity& quantity : row.kind->quantities()) {
    if (quantity.if_counted.empty() || statistics[quantity].count == 0) continue;
    lines.push_back(
        {fmt::format("{}: {}: {} of {}, warm-up included, {}", in_capitals(quantity.key), name,
                     statistics[quantity].count, counted(std::ssize(row.ranks[0].samples), "step"),
                     quantity.if_counted),
         true});
  }
}

bool compares(const ExperimentKind& kind) {
  return std::ranges::any_of(kind.quantities(),
                             [](const Quantity& quantity) { return quantity.compares != nullptr; });
}

/// What speed-ups count from, if any does.
void add_baselines(const std::vector<NamedRow>& rows, std::vector<ReportLine>& lines) {
  std::set<std::string> timed;  // fingerprints
  for (const NamedRow& each : rows) {
    if (!each.row.emulated) timed.insert(each.row.fingerprint);
  }
  std::map<std::string, std::vector<std::string>> files;  // by the words
  for (const NamedRow& each : rows) {
    const Row& row = each.row;
    if (timed.contains(row.baseline) && compares(*row.kind))
      add_once(files[row.baseline_words], row.name);
  }
  for (const auto& [words, names] : files) {
    lines.push_back({fmt::format(
        "speed-up{} counts from {}",
        files.size() == 1 ? std::string() : fmt::format(" in {}", fmt::join(names, ", ")), words)});
  }
}

void add_emulated(const std::vector<NamedRow>& rows, std::vector<ReportLine>& lines) {
  std::vector<std::string> emulated;
  for (const auto& [row, statistics, name, row_name] : rows) {
    if (row.emulated) add_once(emulated, row_name);
  }
  if (emulated.empty()) return;
  lines.push_back({fmt::format(
      "emulated: {}: the ranks shared one GPU and met over sockets, so times would say nothing of "
      "GPUs of their own: they are withheld, and result.json has the samples",
      fmt::join(emulated, ", "))});
}

/// Why figures are missing, once each. On a CPU nobody expects those of a device.
void add_missing(const std::vector<NamedRow>& rows, std::vector<ReportLine>& lines) {
  std::vector<std::string> notes;
  for (const auto& [row, statistics, name, row_name] : rows) {
    if (row.emulated || row.ranks.front().device_name.empty()) continue;
    for (const Quantity& quantity : row.kind->quantities()) {
      if (!quantity.follows) continue;
      const Figure figure = statistics.figure(quantity);
      if (!figure.value && !figure.words.empty()) {
        add_once(notes, "no " + quantity.title + ": " + figure.words);
      }
    }
  }
  for (const std::string& note : notes) lines.push_back({note});
}

/// Whether all rows that were measured were so in turn.
bool took_turns(const std::vector<Row>& rows) {
  const Row* first = nullptr;
  return std::ranges::all_of(rows, [&first](const Row& row) {
    if (!row.measured()) return true;
    if (first == nullptr) first = &row;
    return row.occasion == first->occasion;
  });
}

/// When and where rows were measured that did not run now.
void add_earlier(const TableLines& table, const std::vector<NamedRow>& rows,
                 std::vector<ReportLine>& lines) {
  Groups<std::vector<std::string>> names;
  for (const auto& [row, statistics, name, row_name] : rows) {
    if (row.taken_from.empty()) continue;
    add_once(
        names[fmt::format("{} on {}, in {}", row.occasion.time, row.occasion.host, row.taken_from)],
        row_name);
  }
  const char* const turns = took_turns(table.rows()) ? "" : ", and not in turn with the others";
  for (const auto& [place, of] : names) {
    lines.push_back({fmt::format("measured earlier{}: {}: {}", turns, fmt::join(of, ", "), place)});
  }
}

/// Rows that asked for the same ranks and backend as others, and were measured under other
/// conditions; and those that did not get the backend that comes first.
void add_conditions(const std::vector<NamedRow>& rows, std::vector<ReportLine>& lines) {
  std::map<std::string, const NamedRow*> first;  // by what they asked for
  Groups<std::vector<std::string>> fell_back;    // by the backend
  std::vector<std::string> unlike;
  for (const NamedRow& each : rows) {
    const NamedRow& other = *first.emplace(json_text(world_of(each.row)), &each).first->second;
    for (const auto& [name, before, own] : unasked_differences(other.row, each.row)) {
      add_once(unlike, fmt::format("OTHER CONDITIONS: {}: {}: {}, and {} in {}", each.name, name,
                                   own, before, other.name));
    }
    const auto& ranks = each.row.ranks;
    const auto found = std::ranges::find_if(ranks, &RankResult::fell_back);
    if (found != ranks.end()) add_once(fell_back[found->backend], each.row_name);
  }
  for (const std::string& text : unlike) lines.push_back({text, true});
  for (const auto& [backend, names] : fell_back) {
    lines.push_back({fmt::format("FELL BACK: {}: {}", fmt::join(names, ", "), backend), true});
  }
}

/// Of which rows somebody took more than that share of a core, the busiest first.
void add_busy(const std::vector<NamedRow>& rows, const char* who,
              std::optional<double> RunLoad::*share, double least, std::vector<ReportLine>& lines) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<double, std::string>> busy;
  for (const NamedRow& each : rows) {
    const double taken = (load_of(each.row).*share).value_or(0);
    if (taken > least) busy.emplace_back(taken, each.name);
  }
  if (busy.empty()) return;
  std::ranges::stable_sort(busy, std::greater(), &std::pair<double, std::string>::first);
  std::vector<std::string> texts;
  for (const auto& [taken, name] : busy) {
    if (texts.size() == kShown) break;
    texts.push_back(fmt::format("{:.0f} %{} while {} ran", taken * 100,
                                texts.empty() ? " of a core" : "", name));
  }
  if (busy.size() > kShown) texts.push_back(fmt::format("and in {} more", busy.size() - kShown));
  lines.push_back({fmt::format("BUSY: {} took {}", who, fmt::join(texts, ", ")), true});
}

/// What the figures are, and which runs they lack.
void add_repeats(const TableLines& table, const std::vector<std::string>& names,
                 std::vector<ReportLine>& lines) {
  const std::vector<Row>& rows = table.rows();
  if (!table.repeated()) return;
  std::size_t most = 0;
  for (const TableLine& line : table.lines()) {
    most = std::max(most, line.count);
    for (std::size_t i = line.first; i < line.first + line.count; ++i) {
      if (line.runs.empty() || rows[i].measured()) continue;  // its line has the reason
      lines.push_back(
          {fmt::format("{}: {}: {}", name_of(rows[i].status), names[i], first_line(rows[i].reason)),
           true});
    }
  }
  lines.push_back({fmt::format(
      "figures are means over up to {} runs of each row{} (± standard deviation between runs)",
      most, took_turns(rows) ? ", which took turns" : "")});
}

void add_restarts(const std::vector<NamedRow>& rows, std::vector<ReportLine>& lines) {
  for (const NamedRow& each : rows) {
    const Restarts& restarts = each.row.restarts;
    if (restarts.reasons.empty()) continue;
    lines.push_back(
        {fmt::format("{} was started again {} (the last one: {}); {} or more were "
                     "done twice, and {:.1f} of {:.1f} s were useful: ETTR {:.3f}",
                     each.name, counted(std::ssize(restarts.reasons), "time"),
                     restarts.reasons.back(), counted(restarts.steps_again, "step"),
                     restarts.useful_s, restarts.all_s, restarts.ettr())});
  }
}

void add_findings(const TableLines& table, std::vector<ReportLine>& lines) {
  for (const Finding& finding : findings_of(table)) {
    if (!finding.text.empty()) lines.push_back({finding.text, false, true});
  }
}

}  // namespace

std::vector<ReportLine> report_lines(const TableLines& table) {
  const std::vector<Row>& rows = table.rows();
  std::vector<std::string> names = run_names(table), row_names = ddprun::row_names(rows).names;
  const std::string key = table.in_sentence({});  // "world.size=", before the name of each row
  for (std::vector<std::string>* of : {&names, &row_names}) {
    for (std::string& name : *of) name.insert(0, key);
  }
  std::vector<NamedRow> measured;
  std::vector<ReportLine> failures;
  auto statistics = table.statistics().begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].measured()) {
      measured.push_back({rows[i], *statistics++, names[i], row_names[i]});
    } else if (rows[i].status == RowStatus::proof_failed) {
      failures.push_back(
          {fmt::format("NOT PROVED: {}: {}", names[i], first_line(rows[i].reason)), true});
    }
  }
  std::vector<ReportLine> lines;
  add_repeats(table, names, lines);
  add_earlier(table, measured, lines);
  add_conditions(measured, lines);
  add_busy(measured, "another program", &RunLoad::others, RunLoad::kBusy, lines);
  add_busy(measured, "another machine on the same host", &RunLoad::stolen, RunLoad::kBusy, lines);
  add_busy(measured, "the cgroup's quota", &RunLoad::throttled, RunLoad::kThrottled, lines);
  add_proof(measured, failures, lines);
  for (const NamedRow& row : measured) add_steps(row, lines);
  add_baselines(measured, lines);
  add_emulated(measured, lines);
  add_restarts(measured, lines);
  add_missing(measured, lines);
  add_findings(table, lines);
  for (const std::string& text : memory_advice(table)) lines.push_back({text});
  return lines;
}

}  // namespace ddprun
