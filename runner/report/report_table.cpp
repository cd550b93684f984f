// Cells of the comparison table and the sentences below it.
#include "runner/report/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "runner/report/memory_table.h"
#include "runner/report/report_statistics.h"
#include "runner/report/utilization.h"

namespace ddprun {

namespace {

/// Overlap below this share of the communication is noise of the clocks, not overlap.
constexpr double kObservedOverlap = 0.01;

struct Entry {
  const Row* row;
  std::optional<RunStatistics> statistics;  ///< if the row was measured
  std::optional<double> contention_ms;      ///< if a row without communication is there

  /// Whether its times mean something.
  bool timed() const { return statistics && !row->emulated; }
};

/// The experiment but for its name and strategy: rows that are equal in it do the same work.
nlohmann::json work_of(const Row& row) {
  nlohmann::json config = row.config;
  if (config.is_object()) {
    for (const char* key : {"name", "strategy"}) config.erase(key);
  }
  return config;
}

/// What communication costs backward: the row's backward minus that of a row of the same work that
/// does not communicate.
void set_contention(std::vector<Entry>& entries) {
  for (const Entry& control : entries) {
    if (!control.timed() || control.statistics->collectives_per_step > 0) continue;
    for (Entry& entry : entries) {
      if (!entry.timed() || entry.statistics->collectives_per_step == 0) continue;
      if (work_of(*entry.row) != work_of(*control.row)) continue;
      entry.contention_ms =
          entry.statistics->backward_ms().median - control.statistics->backward_ms().median;
    }
  }
}

std::vector<Entry> make_entries(const std::vector<Row>& rows) {
  std::vector<Entry> entries;
  for (const Row& row : rows) {
    entries.push_back({&row, {}, {}});
    if (row.measured()) {
      entries.back().statistics =
          compute_statistics(row.ranks, row.global_batch, row.context_length);
    }
  }
  set_contention(entries);
  return entries;
}

/// Decimals that show three digits or more of the largest value; one number for a whole column, so
/// that points align.
int decimals_for(const std::vector<Entry>& entries,
                 const Summary& (RunStatistics::*column)() const) {
  double largest = 0;
  for (const Entry& entry : entries) {
    if (entry.timed()) largest = std::max(largest, ((*entry.statistics).*column)().median);
  }
  return largest >= 1000 ? 0 : largest >= 10 ? 1 : 2;
}

using Format = std::function<TextTable::Cell(const Entry&)>;

Format time_cell(const std::vector<Entry>& entries,
                 const Summary& (RunStatistics::*column)() const) {
  const int decimals = decimals_for(entries, column);
  return [column, decimals](const Entry& entry) -> TextTable::Cell {
    return {fmt::format("{:.{}f}", ((*entry.statistics).*column)().median, decimals)};
  };
}

Format step_cell(const std::vector<Entry>& entries) {
  const int decimals = decimals_for(entries, &RunStatistics::step_ms);
  std::size_t width = 0;
  for (const Entry& entry : entries) {
    if (!entry.timed()) continue;
    width =
        std::max(width, fmt::format("{:.{}f}", entry.statistics->step_ms().std, decimals).size());
  }
  return [decimals, width](const Entry& entry) -> TextTable::Cell {
    const Summary& step = entry.statistics->step_ms();
    if (step.count < 2) return {fmt::format("{:.{}f}", step.median, decimals)};  // no spread of one
    return {fmt::format("{:.{}f} ± {:>{}.{}f}", step.median, decimals, step.std, width, decimals)};
  };
}

TextTable::Cell overlap_cell(const Entry& entry) {
  if (entry.statistics->communication_ms().mean <= 0) return {"–"};
  const double share = entry.statistics->overlapped_share;
  return {share < kObservedOverlap ? "no" : fmt::format("{:.0f} %", share * 100)};
}

TextTable::Cell contention_cell(const Entry& entry) {
  return {entry.contention_ms ? fmt::format("{:+.1f}", *entry.contention_ms) : "–"};
}

TextTable::Cell calls_cell(const Entry& entry) {
  const double calls = entry.statistics->collectives_per_step;
  return {calls == std::floor(calls) ? fmt::format("{:.0f}", calls) : fmt::format("{:.1f}", calls)};
}

TextTable::Cell tflops_cell(const Entry& entry) {
  const double tflops = utilization(*entry.row, *entry.statistics).tflops;
  return {fmt::format("{:.{}f}", tflops, tflops >= 100 ? 0 : tflops >= 1 ? 1 : 3)};
}

TextTable::Cell mfu_cell(const Entry& entry) {
  const auto mfu = utilization(*entry.row, *entry.statistics).mfu;
  return {mfu ? fmt::format("{:.1f} %", *mfu * 100) : "–"};
}

TextTable::Cell memory_cell(const Entry& entry) {
  const MemoryPeak peak = memory_peak(*entry.row);
  if (peak.phase.empty()) return {"–"};
  return {fmt::format("{:.1f} MB, {}", static_cast<double>(peak.bytes) * 1e-6, peak.phase)};
}

TextTable::Cell proof_cell(const Entry& entry) {
  const Proof proof = summarize_proof(entry.row->ranks);
  if (proof.status == "passed") return {"✓ proved", Colour::green};
  if (proof.status == "control") return {"control", Colour::yellow};
  for (const Check& check : proof.checks) {
    if (check.status == "failed") return {"✗ " + check.name, Colour::red};
  }
  return {"✗ not checked", Colour::red};
}

Format speedup_cell(const std::vector<Entry>& entries) {
  double base = 0;
  for (const Entry& entry : entries) {
    if (base == 0 && entry.timed()) base = entry.statistics->step_ms().median;
  }
  return [base](const Entry& entry) -> TextTable::Cell {
    const double step = entry.statistics->step_ms().median;
    return {step > 0 ? fmt::format("{:.2f}x", base / step) : "–"};
  };
}

struct ReportColumn {
  TextTable::Column column;
  Format cell;
};

Format text_cell(std::function<std::string(const RunStatistics&)> text) {
  return [text = std::move(text)](const Entry& entry) -> TextTable::Cell {
    return {text(*entry.statistics)};
  };
}

/// The cell of a speed: of an emulated row it is withheld.
Format timed(Format cell) {
  return [cell = std::move(cell)](const Entry& entry) -> TextTable::Cell {
    return entry.timed() ? cell(entry) : TextTable::Cell{"–"};
  };
}

std::vector<ReportColumn> report_columns(const std::vector<Entry>& entries) {
  using S = RunStatistics;
  std::vector<ReportColumn> columns;
  const auto add = [&columns](const char* title, int drop_order, Format cell) {
    columns.push_back({{title, true, drop_order}, std::move(cell)});
  };
  const auto add_timed = [&add](const char* title, int drop_order, Format cell) {
    add(title, drop_order, timed(std::move(cell)));
  };
  add_timed("step ms", 0, step_cell(entries));
  add_timed("forward", 8, time_cell(entries, &S::forward_ms));
  add_timed("backward", 5, time_cell(entries, &S::backward_ms));
  add_timed("exposed", 0, time_cell(entries, &S::exposed_ms));
  add_timed("skew", 1, time_cell(entries, &S::skew_ms));
  add_timed("% of step", 2,
            text_cell([](const S& s) { return fmt::format("{:.1f}", s.exposed_share * 100); }));
  add_timed("overlapped", 3, overlap_cell);
  add_timed("communication", 11, time_cell(entries, &S::communication_ms));
  add_timed("launch delay", 12, time_cell(entries, &S::launch_delay_ms));
  add_timed("contention", 13, contention_cell);
  add_timed("optimizer", 9, time_cell(entries, &S::optimizer_ms));
  add_timed("tokens/s", 4,
            text_cell([](const S& s) { return with_thousands(std::llround(s.tokens_per_s)); }));
  add_timed("TFLOP/s", 14, tflops_cell);
  // On a CPU it says nothing.
  const bool on_gpu = std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.statistics && !entry.row->ranks.front().device_name.empty();
  });
  add_timed("MFU", on_gpu ? 3 : 16, mfu_cell);
  add("peak memory", 15, memory_cell);
  add_timed("samples/s", 10,
            text_cell([](const S& s) { return fmt::format("{:.1f}", s.samples_per_s); }));
  add("MB/step", 6,
      text_cell([](const S& s) { return fmt::format("{:.2f}", s.bytes_per_step * 1e-6); }));
  add("calls", 7, calls_cell);
  add("loss", 1, text_cell([](const S& s) {
        return fmt::format("{:.3f} → {:.3f}", s.loss_first, s.loss_last);
      }));
  add_timed("speed-up", 0, speedup_cell(entries));
  add("proof", 0, proof_cell);
  columns.back().column.right_aligned = false;
  return columns;
}

/// Whether a label has more than one "key=value": a comma outside of all brackets.
bool has_several_keys(const std::string& label) {
  int depth = 0;
  for (const char c : label) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) return true;
  }
  return false;
}

/// "strategy" if every label is "strategy=..." and nothing else; empty otherwise.
std::string common_key(const std::vector<Row>& rows) {
  std::string key;
  for (const Row& row : rows) {
    const std::size_t equals = row.label.find('=');
    if (equals == std::string::npos || has_several_keys(row.label)) return {};
    const std::string own = row.label.substr(0, equals);
    if (key.empty()) key = own;
    if (own != key) return {};
  }
  return key;
}

/// What a passed check means, in the words of the report.
std::string in_words(const std::string& check) {
  static const std::map<std::string, std::string> words = {
      {"integer_gradients", "integer gradients averaged exactly"},
      {"initial_parameters_equal", "parameters equal on all ranks at the start"},
      {"parameters_equal", "parameters equal on all ranks at the end"},
      {"collectives_as_planned", "collectives as planned"}};
  const auto found = words.find(check);
  return found != words.end() ? found->second : check;
}

/// Says in how many steps the precision skipped the update; empty if in none.
std::string skipped_steps(const Row& row) {
  if (!row.measured()) return {};
  const auto skipped =
      compute_statistics(row.ranks, row.global_batch, row.context_length).skipped_steps;
  if (skipped == 0) return {};
  return fmt::format("{} of {} steps, warm-up included, did not update the parameters", skipped,
                     row.ranks[0].samples.size());
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += ", ";
    out += part;
  }
  return out;
}

/// "bucketed(bucket_mb=5)" with a space before the bracket: as a cell of its own it reads better.
std::string as_cell(std::string value) {
  const std::size_t bracket = value.find('(');
  if (bracket != std::string::npos && bracket > 0) value.insert(bracket, " ");
  return value;
}

}  // namespace

std::string with_thousands(std::int64_t value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return fmt::format("{}{}", value < 0 ? "-" : "", digits);
}

RowNames row_names(const std::vector<Row>& rows) {
  std::set<std::string> files;
  for (const Row& row : rows) files.insert(row.name);
  const std::string key = files.size() == 1 ? common_key(rows) : "";
  RowNames out{key.empty() ? "experiment" : key, {}};
  for (const Row& row : rows) {
    if (!key.empty()) {
      out.names.push_back(as_cell(row.label.substr(key.size() + 1)));
    } else if (row.label.empty()) {
      out.names.push_back(row.name);
    } else {
      out.names.push_back(files.size() == 1 ? row.label : row.name + ": " + row.label);
    }
  }
  return out;
}

TextTable report_table(const std::vector<Row>& rows) {
  const std::vector<Entry> entries = make_entries(rows);
  const RowNames names = row_names(rows);
  const std::vector<ReportColumn> columns = report_columns(entries);
  TextTable table;
  table.columns.push_back({names.title, false, 0});
  for (const ReportColumn& column : columns) table.columns.push_back(column.column);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TextTable::Line line;
    line.cells.push_back({names.names[i] + (rows[i].emulated ? " (emulated)" : "")});
    if (entries[i].statistics) {
      for (const ReportColumn& column : columns) line.cells.push_back(column.cell(entries[i]));
    } else {
      const std::string reason = first_line(rows[i].reason);
      line.note = {rows[i].status + (reason.empty() ? "" : ": " + reason), Colour::red};
    }
    table.lines.push_back(std::move(line));
  }
  return table;
}

std::vector<std::string> proof_lines(const std::vector<Row>& rows) {
  const RowNames names = row_names(rows);
  std::vector<std::string> proved, controls, emulated, lines;  // proved: names of checks
  std::size_t proved_rows = 0, measured = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].measured()) continue;
    ++measured;
    const Proof proof = summarize_proof(rows[i].ranks);
    if (proof.status == "passed") ++proved_rows;
    if (proof.status == "control") controls.push_back(names.names[i]);
    if (rows[i].emulated) emulated.push_back(names.names[i]);
    if (proof.status == "unchecked")
      lines.push_back("not proved: " + names.names[i] + ": no check was made");
    for (const Check& check : proof.checks) {
      if (check.status == "failed") {
        lines.push_back("NOT PROVED: " + names.names[i] + ": " + check.name + ": " + check.detail);
      } else if (proof.status == "passed" &&
                 std::find(proved.begin(), proved.end(), in_words(check.name)) == proved.end()) {
        proved.push_back(in_words(check.name));
      }
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (const std::string sentence = divergence(rows[i].ranks); !sentence.empty())
      lines.push_back("DIVERGED: " + names.names[i] + ": " + sentence);
    if (const std::string sentence = skipped_steps(rows[i]); !sentence.empty())
      lines.push_back("SKIPPED: " + names.names[i] + ": " + sentence);
  }
  if (!emulated.empty()) {
    lines.push_back("emulated: " + joined(emulated) +
                    ": the ranks shared one GPU and met over sockets, so times would say nothing "
                    "of GPUs of their own: they are withheld, and result.json has the samples");
  }
  for (const std::string& note : utilization_notes(rows)) lines.push_back(note);
  if (!controls.empty()) {
    lines.insert(lines.begin(), "control (not synchronized by design): " + joined(controls));
  }
  if (proved_rows > 0) {
    lines.insert(lines.begin(),
                 fmt::format("proved in {} of {} rows: {}", proved_rows, measured, joined(proved)));
  }
  return lines;
}

std::string terminal_report(const std::vector<Row>& rows, const Terminal& terminal) {
  std::vector<std::string> dropped;
  std::string out = report_table(rows).render(terminal.width, terminal.colour, &dropped);
  out += "\n";
  for (const std::string& line : proof_lines(rows)) {
    const bool bad =
        line.starts_with("NOT") || line.starts_with("DIVERGED") || line.starts_with("SKIPPED");
    out += coloured(line, bad ? Colour::red : Colour::none, terminal.colour) + "\n";
  }
  if (!dropped.empty()) {
    out += coloured("terminal too narrow for: " + joined(dropped) + " (all are in summary.md)",
                    Colour::dim, terminal.colour) +
           "\n";
  }
  return out;
}

}  // namespace ddprun
