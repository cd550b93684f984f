// What a row without memory stands beside: rows of the same tokens that ran, or would take less.
#include <fmt/format.h>

#include "runner/report/memory_table.h"

namespace ddprun {

namespace {

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
