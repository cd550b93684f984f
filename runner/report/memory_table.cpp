// Rows and phases as lines.
#include "runner/report/memory_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "runner/report/report_table.h"

namespace ddprun {

namespace {

/// The phase on each rank that has it; of these the one with the highest peak counts.
std::vector<PhaseMemory> highest(const Row& row) {
  std::vector<PhaseMemory> out;
  for (const RankResult& rank : row.ranks) {
    for (const PhaseMemory& each : rank.memory_phases) {
      const auto known = std::find_if(out.begin(), out.end(),
                                      [&](const auto& o) { return o.phase == each.phase; });
      if (known == out.end()) {
        out.push_back(each);
      } else if (each.memory.peak_allocated_bytes > known->memory.peak_allocated_bytes) {
        *known = each;
      }
    }
  }
  return out;
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) * 1e-6);
}

}  // namespace

MemoryPeak memory_peak(const Row& row) {
  MemoryPeak peak;
  for (const PhaseMemory& each : highest(row)) {
    if (each.memory.peak_allocated_bytes > peak.bytes) {
      peak = {each.phase, each.memory.peak_allocated_bytes};
    }
  }
  return peak;
}

TextTable memory_table(const std::vector<Row>& rows) {
  const RowNames names = row_names(rows);
  const bool on_gpu = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.measured() && !row.ranks.front().device.empty();
  });
  TextTable table;
  table.columns = {{names.title, false}, {"phase", false}, {"allocated MB"}, {"peak MB"}};
  if (on_gpu) {
    table.columns.insert(table.columns.end(), {{"reserved MB"}, {"peak reserved MB"}, {"retries"}});
  }
  table.columns.push_back({"", false});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string largest = memory_peak(rows[i]).phase;
    for (const auto& [phase, memory] : highest(rows[i])) {
      TextTable::Line line{{{names.names[i]},
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
