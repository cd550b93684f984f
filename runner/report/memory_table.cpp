// Rows and phases as lines, and what a row without memory stands beside: rows of the same tokens
// that ran, or would take less.
#include "runner/report/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) * 1e-6);
}

/// Bytes that were predicted of a phase's peak; empty: nothing was.
std::optional<std::int64_t> predicted_peak(const Row& row, const std::string& phase) {
  if (!row.predicted) return {};
  const auto& phases = row.predicted->phases;
  const auto found = std::ranges::find(phases, phase, &PhaseAccount::phase);
  return found == phases.end() ? std::nullopt : std::optional(found->at_peak.sum());
}

struct Compared {
  std::int64_t measured = 0;
  std::optional<std::int64_t> predicted = {};

  bool can_differ() const { return predicted && *predicted > 0; }
  double percent() const {
    return 100 * (static_cast<double>(measured) / static_cast<double>(*predicted) - 1);
  }
  std::string difference() const {
    return can_differ() ? fmt::format("{:+.1f} %", percent()) : "–";
  }
  /// Whether they differ by more than 5 %, and by more than is nobody's concern.
  bool off() const {
    constexpr double kLarge = 5;
    constexpr std::int64_t kSmallBytes = 1'000'000;
    return can_differ() && std::abs(measured - *predicted) >= kSmallBytes &&
           std::abs(percent()) > kLarge;
  }
};

/// Of a row whose memory ran out: what its phases would have taken.
void add_predicted(const std::string& name, const Account& predicted, TextTable& table) {
  for (const PhaseAccount& phase : predicted.phases) {
    table.lines.push_back({{{name}, {phase.phase}, {"–"}, {"–"}, {megabytes(phase.at_peak.sum())}},
                           {"out of memory", Colour::red}});
  }
}

/// The phase with the highest peak; empty: memory was not looked at.
std::string largest_phase(const Row& row) {
  const std::vector<PhaseMemory> phases = highest_memory(row);
  const auto largest = std::ranges::max_element(phases, [](auto& a, auto& b) {
    return a.memory.peak_allocated_bytes < b.memory.peak_allocated_bytes;
  });
  return largest == phases.end() ? "" : largest->phase;
}

/// Null: it was not recorded.
const PeakMemory* peak_of(const Row& row) {
  if (!row.measured() || !row.ranks.front().memory_peak.recorded()) return nullptr;
  return &row.ranks.front().memory_peak;
}

/// The five largest: "w1w3 40 %, qkv 23 %".
std::string shares(const PeakMemory::Parts& parts, double all) {
  constexpr std::size_t kMost = 5;
  const auto words = [all](const auto& part) {
    return fmt::format("{} {:.1f} %", part.first, 100 * static_cast<double>(part.second) / all);
  };
  return list_text(mapped(parts | std::views::take(kMost), words));
}

/// Of a category of tensors at the peak of the step that was recorded.
Compared compared(const Row& row, const std::string& category) {
  Compared out;
  for (const auto& [name, bytes] : row.ranks.front().memory_peak.tensors) {
    if (name == category) out.measured = bytes;
  }
  const PhaseAccount* const peak =
      row.predicted ? row.predicted->peak(/*steps_alone=*/true) : nullptr;
  if (peak != nullptr) out.predicted = peak->at_peak[value_named<MemoryCategory>(category)];
  return out;
}

/// What the table of phases has beside what each line needs.
struct PhaseColumns {
  bool predicted = false, on_gpu = false;
};

PhaseColumns columns_of(const std::vector<Row>& rows) {
  return {.predicted = std::ranges::any_of(
              rows, [](const Row& row) { return row.predicted && !row.predicted->phases.empty(); }),
          .on_gpu = std::ranges::any_of(rows, [](const Row& row) {
            return row.measured() && !row.ranks.front().device.empty();
          })};
}

std::vector<std::string> phase_cells(const std::string& name, const Row& row,
                                     const PhaseMemory& phase, const PhaseColumns& columns) {
  const DeviceMemory& memory = phase.memory;
  const Compared peak = {memory.peak_allocated_bytes, predicted_peak(row, phase.phase)};
  std::vector<std::string> cells = {name, phase.phase, megabytes(memory.allocated_bytes),
                                    megabytes(peak.measured)};
  if (columns.predicted) {
    cells.push_back(peak.predicted ? megabytes(*peak.predicted) : "–");
    cells.push_back(peak.difference());
  }
  if (columns.on_gpu) {
    cells.push_back(megabytes(memory.reserved_bytes));
    cells.push_back(megabytes(memory.peak_reserved_bytes));
    cells.push_back(std::to_string(memory.retries));
  }
  cells.push_back(phase.phase == largest_phase(row) ? "largest" : "");
  return cells;
}

double sum(const PeakMemory::Parts& parts) {
  double bytes = 0;
  for (const auto& part : parts) bytes += static_cast<double>(part.second);
  return bytes;
}

/// Bytes that a rank takes by the account; 0: that is not known.
double predicted_bytes(const Row& row) {
  const PhaseAccount* const peak = row.predicted ? row.predicted->peak() : nullptr;
  return peak == nullptr ? 0 : static_cast<double>(peak->at_peak.sum());
}

bool same_tokens(const Row& a, const Row& b) {
  const auto tokens = [](const Row& row) { return row.work.value("tokens", 0.0); };
  return a.kind == b.kind && a.file == b.file && a.work.is_object() && b.work.is_object() &&
         tokens(a) > 0 && tokens(a) == tokens(b);
}

std::string gigabytes(double bytes) { return fmt::format("{:.3g} GB", bytes * 1e-9); }

/// " (0.52 GB by the account)"
std::string by_account(const Row& row) {
  const double bytes = predicted_bytes(row);
  return bytes > 0 ? fmt::format(" ({} a rank by the account)", gigabytes(bytes)) : std::string();
}

/// A line of the table that stands for what else the row could be.
struct Alternative {
  const TableLine* line = nullptr;
  std::size_t of = 0;  ///< so many it was chosen from

  void offer(const TableLine& other, bool better) {
    ++of;
    if (line == nullptr || better) line = &other;
  }
};

std::string words_of(const Row& row, const TableLines& table) {
  const std::vector<Row>& rows = table.rows();
  const auto step = [](const TableLine& line) {
    return mean_figure(line.runs, line.runs.front()->run().kind->quantities().front());
  };
  Alternative ran, smaller;
  for (const TableLine& line : table.lines()) {
    const Row& other = rows[line.first];
    if (!same_tokens(row, other)) continue;
    if (other.ok()) ran.offer(line, ran.line != nullptr && step(line) < step(*ran.line));
    const double bytes = predicted_bytes(other);
    if (bytes <= 0 || bytes >= predicted_bytes(row)) continue;
    smaller.offer(line,
                  smaller.line != nullptr && bytes < predicted_bytes(rows[smaller.line->first]));
  }
  if (ran.line != nullptr) {
    return fmt::format("of the same tokens a step {}{} ran{}", table.in_sentence(*ran.line),
                       by_account(rows[ran.line->first]),
                       ran.of > 1 ? fmt::format(", the fastest of {} that did", ran.of) : "");
  }
  if (smaller.line == nullptr) return {};
  return fmt::format("of the same tokens a step {}{} takes the least, and no row ran",
                     table.in_sentence(*smaller.line), by_account(rows[smaller.line->first]));
}

}  // namespace

TextTable memory_table(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  const std::vector<std::string> names = run_names(lines);
  const PhaseColumns columns = columns_of(rows);
  TextTable table;
  table.columns = {{lines.title(), false}, {"phase", false}, {"allocated MB"}, {"peak MB"}};
  if (columns.predicted) {
    table.columns.insert(table.columns.end(), {{"predicted MB"}, {"difference"}});
  }
  if (columns.on_gpu) {
    table.columns.insert(table.columns.end(), {{"reserved MB"}, {"peak reserved MB"}, {"retries"}});
  }
  table.columns.push_back({"", false});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const PhaseMemory& phase : highest_memory(rows[i])) {
      table.add(phase_cells(names[i], rows[i], phase, columns));
    }
    if (rows[i].status == RowStatus::out_of_memory && rows[i].predicted) {
      add_predicted(names[i], *rows[i].predicted, table);
    }
  }
  return table;
}

std::vector<std::string> memory_remarks(const TableLines& lines) {
  std::vector<std::string> out;
  const std::vector<std::string> names = run_names(lines);
  for (std::size_t i = 0; i < lines.rows().size(); ++i) {
    const Row& row = lines.rows()[i];
    if (!row.predicted) continue;
    if (!row.predicted->unknown.empty()) {
      out.push_back(
          fmt::format("{}: its memory was not predicted: {}", names[i], row.predicted->unknown));
    }
    for (const auto& [phase, memory] : highest_memory(row)) {
      const Compared peak = {memory.peak_allocated_bytes, predicted_peak(row, phase)};
      if (!peak.off()) continue;
      out.push_back(fmt::format(
          "{}: the peak of {} is {:+.1f} % of what was predicted, as {}", names[i], phase,
          peak.percent(),
          peak.percent() > 0
              ? "something held memory that the steps themselves do not: a check of the "
                "run, a plugin's own, or a collective of which the network had just let go"
              : "the observed step did not do all that a later one does, or its collectives were "
                "over before the strategy waited for them"));
    }
    if (peak_of(row) == nullptr) continue;
    for (const char* category : kChoiceNames<MemoryCategory>) {
      const Compared one = compared(row, category);
      if (!one.off()) continue;
      out.push_back(fmt::format(
          "{}: {} of rank 0 at the peak are {:+.1f} % of what was predicted of "
          "the rank that holds most, in {}",
          names[i], category, one.percent(), row.predicted->peak(/*steps_alone=*/true)->phase));
    }
  }
  return out;
}

TextTable memory_category_table(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  const std::vector<std::string> names = run_names(lines);
  TextTable table;
  table.columns = {{lines.title(), false}, {"memory of rank 0", false},
                   {"MB at the peak"},     {"%"},
                   {"tensors MB"},         {"predicted MB"},
                   {"difference"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PeakMemory* const peak = peak_of(rows[i]);
    if (peak == nullptr) continue;
    const auto add = [&](const std::string& name, std::int64_t bytes, const Compared& tensors) {
      const double share =
          100 * static_cast<double>(bytes) / static_cast<double>(peak->resident_bytes);
      const bool none = tensors.measured == 0 && tensors.predicted.value_or(0) == 0;
      table.add({names[i], name, megabytes(bytes), fmt::format("{:.1f}", share),
                 none ? "–" : megabytes(tensors.measured),
                 none || !tensors.predicted ? "–" : megabytes(*tensors.predicted),
                 tensors.difference()});
    };
    Compared all;
    for (const auto& [category, bytes] : peak->categories) {
      const Compared tensors = compared(rows[i], category);
      if (bytes != 0 || tensors.predicted.value_or(0) != 0) add(category, bytes, tensors);
      all.measured += tensors.measured;
      if (tensors.predicted) all.predicted = all.predicted.value_or(0) + *tensors.predicted;
    }
    add("unexplained", peak->unexplained_bytes, {});
    const bool on_gpu = !rows[i].ranks.front().device.empty();
    add((on_gpu ? "used, in " : "resident, in ") + peak->phase, peak->resident_bytes, all);
  }
  return table;
}

std::vector<std::string> saved_words(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  const std::vector<std::string> names = run_names(lines);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PeakMemory* const peak = peak_of(rows[i]);
    if (peak == nullptr || peak->saved.empty() || peak->tokens == 0) continue;
    const double saved = sum(peak->saved), again = sum(peak->saved_again);
    const auto tokens = static_cast<double>(peak->tokens);
    out.push_back(
        fmt::format("{}: the first block saves {:.3f} MB for backward, {:.0f} bytes a "
                    "token: {}",
                    names[i], saved * 1e-6, saved / tokens, shares(peak->saved, saved)));
    if (again == 0) continue;
    out.back() += fmt::format("; backward computes {:.3f} MB again, {:.0f} bytes a token: {}",
                              again * 1e-6, again / tokens, shares(peak->saved_again, again));
  }
  return out;
}

std::vector<std::string> memory_advice(const TableLines& table) {
  std::vector<std::string> out;
  for (const TableLine& line : table.lines()) {
    const Row& row = table.rows()[line.first];
    if (row.status != RowStatus::out_of_memory) continue;
    const std::string words = words_of(row, table);
    if (words.empty()) continue;
    out.push_back(
        fmt::format("{} is out of memory{}: {}", table.in_sentence(line), by_account(row), words));
  }
  return out;
}

}  // namespace ddprun
