// Sentences and tables from rounds and runs.
#include "runner/tune/tuning_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <limits>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/measure/statistics.h"
#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

using nlohmann::json;

/// More names than that are a number; tune.json has them all.
constexpr std::size_t kNamed = 6;

std::string names_of(const std::vector<std::string>& labels) {
  return labels.size() > kNamed ? fmt::format("{} candidates", labels.size()) : list_text(labels);
}

std::vector<double> times_of(const Contender& contender) {
  return mapped(contender.ms, [](const auto& turn) { return turn.second; });
}

Summary summary_of(const Halving& halving, std::size_t candidate) {
  return summarize(times_of(halving.contenders()[candidate]));
}

std::string name_of_candidate(const Tuning& tuning, std::size_t candidate) {
  return as_cell(tuning.candidates[candidate].choice.name());
}

/// The share of the reference's time that is gone: "23.1 % [19.0, 27.2]".
std::string saving_words(const Comparison& comparison) {
  std::string out = fmt::format("{:.1f} %", (1 - comparison.ratio) * 100);
  if (comparison.interval) {
    out += fmt::format(" [{:.1f}, {:.1f}]", (1 - comparison.interval->high) * 100,
                       (1 - comparison.interval->low) * 100);
  }
  return out;
}

/// Of a comparison whose interval was said.
std::string p_words(const Comparison& comparison) {
  const std::string p = *comparison.p < 0.001 ? "< 0.001" : fmt::format("= {:.3f}", *comparison.p);
  return fmt::format(" (p {}, the best of {})", p, comparison.chosen_from);
}

std::string step_words(const Summary& ms) {
  return ms.count > 1 ? fmt::format("{:.2f} ± {:.2f}", ms.mean, ms.ci95)
                      : fmt::format("{:.2f}", ms.mean);
}

/// Those that ran first, the fastest first.
std::vector<std::size_t> in_order(const TuningResult& result) {
  std::vector<std::size_t> order(result.tuning.candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto time = [&](std::size_t i) {
    const Summary ms = summary_of(result.halving, i);
    return ms.count == 0 ? std::numeric_limits<double>::infinity() : ms.mean;
  };
  std::ranges::stable_sort(order, {}, time);
  if (const auto winner = result.halving.winner()) {
    std::ranges::stable_partition(order, [&](std::size_t i) { return i == *winner; });
  }
  return order;
}

std::string standing_words(const TuningResult& result, std::size_t candidate) {
  const Contender& contender = result.halving.contenders()[candidate];
  if (result.halving.winner() == candidate) return "recommended";
  if (contender.standing == Standing::untried) return "not tried: no time";
  if (contender.standing == Standing::left && contender.ms.size() < Comparison::kLeastRuns) {
    return "not tested";
  }
  std::string out = contender.standing == Standing::left ? "not slower beyond noise"
                                                         : name_of(contender.standing);
  if (!contender.reason.empty()) out += ": " + first_line(contender.reason);
  return out;
}

TextTable table_of(const TuningResult& result) {
  TextTable table;
  const auto keys = std::views::keys(result.tuning.candidates.front().choice.values);
  table.columns = {
      {list_text(keys, " + "), false}, {"rounds", true, 2}, {"runs", true, 1}, {"step ms"}};
  const auto reference = result.tuning.reference;
  if (reference) table.columns.push_back({"saving"});
  table.columns.push_back({"", false});
  for (const std::size_t i : in_order(result)) {
    const Contender& contender = result.halving.contenders()[i];
    const Summary ms = summary_of(result.halving, i);
    const bool is_reference = reference == i;
    TextTable::Line line{
        {{name_of_candidate(result.tuning, i)}, {std::to_string(contender.rounds)}}};
    line.cells.push_back({std::to_string(ms.count)});
    line.cells.push_back({ms.count == 0 ? "–" : step_words(ms)});
    if (reference) {
      const auto against = is_reference ? std::nullopt : result.halving.against(i, *reference);
      line.cells.push_back({against ? saving_words(*against) : "–"});
    }
    std::string words = standing_words(result, i);
    if (is_reference) words = result.tuning.reference_words + ", " + words;
    line.cells.push_back({words, result.halving.winner() == i ? Colour::green : Colour::none});
    table.lines.push_back(std::move(line));
  }
  return table;
}

/// The first sentence that a result would have about what limits the row.
std::string limit_words(const TuningResult& result, std::size_t candidate) {
  const std::optional<Row>& row = result.last_rows.at(candidate);
  if (!row) return {};
  const std::vector<Row> rows = {*row};
  for (const Finding& each : findings_of(TableLines(rows))) {
    if (!each.text.empty() && each.tests.empty()) return each.text;
  }
  return {};
}

std::vector<std::string> ties_of(const TuningResult& result, std::size_t winner) {
  std::vector<std::string> out;
  const std::vector<Contender>& all = result.halving.contenders();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == winner || all[i].standing != Standing::left) continue;
    out.push_back(name_of_candidate(result.tuning, i));
  }
  return out;
}

/// What the winner is, in a sentence: "strategy=flat saves 23 % ...".
std::string verdict_words(const TuningResult& result) {
  const Tuning& tuning = result.tuning;
  const auto winner = result.halving.winner();
  const auto best = result.halving.best();
  if (!winner) return "no candidate came through: nothing is recommended";
  const std::string name = name_of_candidate(tuning, *winner);
  const auto time = fmt::format("{:.2f} ms a step", summary_of(result.halving, *winner).mean);
  if (!tuning.reference) {
    return fmt::format("fastest: {}, {}; {} does not run here", name, time, tuning.reference_words);
  }
  const std::string& reference = tuning.reference_words;
  const Standing standing = result.halving.contenders()[*tuning.reference].standing;
  if (standing == Standing::failed || standing == Standing::unproved) {
    return fmt::format("fastest: {}, {}; {} {}", name, time, reference,
                       standing == Standing::failed ? "failed" : "is not proved");
  }
  if (winner != tuning.reference) {
    const auto claim = result.halving.claim();
    if (!claim) return fmt::format("fastest: {}, {}", name, time);
    return fmt::format("{} saves {} of the step of {}{}", name, saving_words(*claim), reference,
                       claim->p ? p_words(*claim) : verdict(*claim));
  }
  std::string out = fmt::format(
      "nothing {} faster than {}: {}, {}", best == winner ? "is" : "was shown to be",
      reference == "the file's own setting" ? "what the file says" : reference, name, time);
  if (const auto claim = result.halving.claim(); claim && best) {
    out += fmt::format("; {} {} it{}", name_of_candidate(tuning, *best), words_of_times(*claim),
                       verdict(*claim));
  }
  return out;
}

std::string sentences(const TuningResult& result) {
  std::string out = verdict_words(result) + "\n";
  const auto winner = result.halving.winner();
  if (!winner) return out;
  if (const auto ties = ties_of(result, *winner); !ties.empty()) {
    out += fmt::format("not slower than the fastest beyond noise: {}\n", names_of(ties));
  }
  if (const std::string why = limit_words(result, *winner); !why.empty()) out += why + "\n";
  return out;
}

std::string csv_of(const TuningResult& result) {
  std::string out = "candidate,standing,turn,step_ms\n";
  for (const std::size_t i : in_order(result)) {
    const std::string label = csv_field(result.tuning.candidates[i].choice.label());
    const Contender& contender = result.halving.contenders()[i];
    for (const auto& [turn, ms] : contender.ms) {
      out += fmt::format("{},{},{},{}\n", label, name_of(contender.standing), turn, ms);
    }
  }
  return out;
}

json json_of_candidate(const TuningResult& result, std::size_t i) {
  const TunedCandidate& candidate = result.tuning.candidates[i];
  const Contender& contender = result.halving.contenders()[i];
  json out = {{"label", candidate.choice.label()},
              {"standing", name_of(contender.standing)},
              {"reason", contender.reason},
              {"rounds", contender.rounds},
              {"reference", result.tuning.reference == i},
              {"runs", json::array()},
              {"step_ms", nullptr},
              {"comparison", nullptr}};
  for (const auto& [key, value] : candidate.choice.values) out["values"][key] = to_json(value);
  for (const auto& [turn, ms] : contender.ms) {
    out["runs"].push_back({{"turn", turn}, {"step_ms", ms}});
  }
  if (const Summary ms = summary_of(result.halving, i); ms.count > 0) {
    out["step_ms"] = {{"mean", ms.mean}, {"ci95", ms.ci95}, {"runs", ms.count}};
  }
  if (result.tuning.reference && result.tuning.reference != i) {
    const auto comparison = result.halving.against(i, *result.tuning.reference);
    if (comparison) out["comparison"] = to_json(*comparison);
  }
  if (candidate.account) {
    const PhaseAccount* const peak = candidate.account->peak();
    out["predicted"] = {
        {"wire_bytes", candidate.account->wire_bytes()},
        {"peak_memory_bytes", peak == nullptr ? json(nullptr) : json(peak->at_peak.sum())}};
  }
  return out;
}

}  // namespace

std::string round_words(const HalvingRound& round, const Tuning& tuning, const Halving& halving) {
  std::string out =
      fmt::format("round {}: {}, runs of {}; {} left", round.round, counted(round.ran, "candidate"),
                  counted(round.steps, "step"), round.left);
  if (round.best) {
    out +=
        fmt::format("; fastest so far {}, {:.2f} ms a step", name_of_candidate(tuning, *round.best),
                    summary_of(halving, *round.best).mean);
  }
  return out + fmt::format(" ({:.0f} s)", round.used_s);
}

std::string left_out_words(const Tuning& tuning) {
  Groups<std::vector<std::string>> by_reason;
  for (const auto& [label, reason] : tuning.left_out) by_reason[reason].push_back(as_cell(label));
  std::string out;
  for (const auto& [reason, labels] : by_reason) {
    out += fmt::format("left out: {}: {}\n", names_of(labels), reason);
  }
  return out;
}

std::string tuning_output(const TuningResult& result, ReportFormat format, const Terminal& terminal,
                          const json& as_json) {
  switch (format) {
    case ReportFormat::table:
      break;
    case ReportFormat::markdown:
      return table_of(result).markdown() + "\n" + sentences(result);
    case ReportFormat::csv:
      return csv_of(result);
    case ReportFormat::json:
      return json_text(as_json, 1) + "\n";
  }
  return "\n" + table_of(result).render(terminal.width, terminal.colour) + "\n" + sentences(result);
}

json to_json(const TuningResult& result) {
  json out = {{"over", json::array()},       {"used_s", result.used_s},
              {"end", name_of(result.end)},  {"rounds", json::array()},
              {"candidates", json::array()}, {"left_out", json::array()},
              {"winner", nullptr},           {"verdict", verdict_words(result)}};
  for (const TunedKey& key : result.tuning.keys) out["over"].push_back(key.key);
  for (const HalvingRound& round : result.rounds) {
    out["rounds"].push_back({{"round", round.round},
                             {"steps", round.steps},
                             {"candidates", round.ran},
                             {"left", round.left},
                             {"used_s", round.used_s}});
  }
  for (std::size_t i = 0; i < result.tuning.candidates.size(); ++i) {
    out["candidates"].push_back(json_of_candidate(result, i));
  }
  for (const auto& [label, reason] : result.tuning.left_out) {
    out["left_out"].push_back({{"label", label}, {"reason", reason}});
  }
  if (const auto winner = result.halving.winner()) {
    out["winner"] = result.tuning.candidates[*winner].choice.label();
  }
  return out;
}

std::string tuned_yaml(const TuningResult& result, const std::string& machine) {
  const auto winner = result.halving.winner();
  if (!winner) return {};
  const std::string words = fmt::format(
      "{} with the setting that `ddprun tune` found:\n{}\n{}\nmeasured on {}\nby {} of real runs, "
      "the last of {}; tune.json has them all",
      result.tuning.file.file.filename().string(), result.tuning.candidates[*winner].choice.label(),
      verdict_words(result), machine, counted(std::ssize(result.rounds), "round"),
      counted(result.rounds.empty() ? 0 : result.rounds.back().steps, "step"));
  return "# " + boost::replace_all_copy(words, "\n", "\n# ") + "\n\n" +
         to_yaml(tuned_document(result.tuning, result.tuning.candidates[*winner]));
}

}  // namespace ddprun
