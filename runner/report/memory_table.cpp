// Rows and phases as lines.
#include "runner/report/memory_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {

namespace {

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) * 1e-6);
}

/// The phase with the highest peak; empty: memory was not looked at.
std::string largest_phase(const Row& row) {
  const std::vector<PhaseMemory> phases = highest_memory(row);
  const auto largest = std::max_element(phases.begin(), phases.end(), [](auto& a, auto& b) {
    return a.memory.peak_allocated_bytes < b.memory.peak_allocated_bytes;
  });
  return largest == phases.end() ? "" : largest->phase;
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
      if (on_gpu) {
        line.cells.push_back({megabytes(memory.reserved_bytes)});
        line.cells.push_back({megabytes(memory.peak_reserved_bytes)});
        line.cells.push_back({std::to_string(memory.retries)});
      }
      line.cells.push_back({phase == largest ? "largest" : ""});
      table.lines.push_back(std::move(line));
    }
  }
  return table;
}

}  // namespace ddprun
