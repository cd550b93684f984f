// Rows and phases as lines.
#include "runner/report/memory_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

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

/// Measured / predicted - 1.
double difference(std::int64_t measured, std::int64_t predicted) {
  return static_cast<double>(measured) / static_cast<double>(predicted) - 1;
}

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
  const auto largest = std::max_element(phases.begin(), phases.end(), [](auto& a, auto& b) {
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
  std::vector<std::string> words;
  for (const auto& [operation, bytes] : parts) {
    if (words.size() == kMost) break;
    words.push_back(fmt::format("{} {:.1f} %", operation, 100 * static_cast<double>(bytes) / all));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

double sum(const PeakMemory::Parts& parts) {
  double bytes = 0;
  for (const auto& part : parts) bytes += static_cast<double>(part.second);
  return bytes;
}

}  // namespace

TextTable memory_table(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  const std::vector<std::string> names = run_names(lines);
  const bool on_gpu = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.measured() && !row.ranks.front().device.empty();
  });
  TextTable table;
  table.columns = {{lines.title(), false}, {"phase", false}, {"allocated MB"}, {"peak MB"}};
  const bool predicted = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.predicted && !row.predicted->phases.empty();
  });
  if (predicted) {
    table.columns.insert(table.columns.end(), {{"predicted MB"}, {"difference"}});
  }
  if (on_gpu) {
    table.columns.insert(table.columns.end(), {{"reserved MB"}, {"peak reserved MB"}, {"retries"}});
  }
  table.columns.push_back({"", false});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string largest = largest_phase(rows[i]);
    for (const auto& [phase, memory] : highest_memory(rows[i])) {
      TextTable::Line line{{{names[i]},
                            {phase},
                            {megabytes(memory.allocated_bytes)},
                            {megabytes(memory.peak_allocated_bytes)}}};
      if (predicted) {
        const auto bytes = predicted_peak(rows[i], phase);
        line.cells.push_back({bytes ? megabytes(*bytes) : "–"});
        line.cells.push_back(
            {bytes && *bytes > 0
                 ? fmt::format("{:+.1f} %", 100 * difference(memory.peak_allocated_bytes, *bytes))
                 : "–"});
      }
      if (on_gpu) {
        line.cells.push_back({megabytes(memory.reserved_bytes)});
        line.cells.push_back({megabytes(memory.peak_reserved_bytes)});
        line.cells.push_back({std::to_string(memory.retries)});
      }
      line.cells.push_back({phase == largest ? "largest" : ""});
      table.lines.push_back(std::move(line));
    }
    if (rows[i].status == RowStatus::out_of_memory && rows[i].predicted) {
      add_predicted(names[i], *rows[i].predicted, table);
    }
  }
  return table;
}

std::string memory_remarks(const TableLines& lines) {
  constexpr double kLarge = 0.05;
  constexpr std::int64_t kSmallBytes = 1'000'000;  // of which 5 % are nobody's concern
  std::string out;
  const std::vector<std::string> names = run_names(lines);
  for (std::size_t i = 0; i < lines.rows().size(); ++i) {
    const Row& row = lines.rows()[i];
    if (!row.predicted) continue;
    if (!row.predicted->unknown.empty()) {
      out +=
          fmt::format("{}: its memory was not predicted: {}\n", names[i], row.predicted->unknown);
    }
    for (const auto& [phase, memory] : highest_memory(row)) {
      const std::int64_t measured = memory.peak_allocated_bytes;
      const std::int64_t bytes = predicted_peak(row, phase).value_or(measured);
      if (bytes == 0 || std::abs(measured - bytes) < kSmallBytes) continue;
      const double off = difference(measured, bytes);
      if (std::abs(off) <= kLarge) continue;
      out +=
          fmt::format("{}: the peak of {} is {:+.1f} % of what was predicted, as {}\n", names[i],
                      phase, 100 * off,
                      off > 0 ? "something held memory that the steps themselves do not: a check "
                                "of the run, or a plugin's own"
                              : "the observed step did not do all that a later one does");
    }
  }
  return out;
}

TextTable memory_category_table(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  const std::vector<std::string> names = run_names(lines);
  TextTable table;
  table.columns = {{lines.title(), false}, {"memory of rank 0", false}, {"MB at the peak"}, {"%"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PeakMemory* const peak = peak_of(rows[i]);
    if (peak == nullptr) continue;
    const auto add = [&](const std::string& name, std::int64_t bytes) {
      const double share =
          100 * static_cast<double>(bytes) / static_cast<double>(peak->resident_bytes);
      table.lines.push_back(
          {{{names[i]}, {name}, {megabytes(bytes)}, {fmt::format("{:.1f}", share)}}});
    };
    for (const auto& [category, bytes] : peak->categories) {
      if (bytes != 0) add(category, bytes);
    }
    add("unexplained", peak->unexplained_bytes);
    add("resident, in " + peak->phase, peak->resident_bytes);
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

}  // namespace ddprun
