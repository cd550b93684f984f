// Samples as comma-separated values.
#include "runner/report/steps_csv.h"

#include <fmt/format.h>

#include <utility>

#include "runner/report/csv_field.h"
#include "runner/report/row_names.h"

namespace ddprun {

std::string steps_csv(const std::vector<Row>& rows) {
  std::vector<std::pair<const ExperimentKind*, const Quantity*>> columns;
  std::string out = "row,label,run,emulated,rank,step,warmup";
  for (const ExperimentKind* kind : kinds_of(rows)) {
    for (const Quantity& quantity : kind->quantities()) {
      if (!quantity.measured()) continue;
      columns.emplace_back(kind, &quantity);
      out += "," + quantity.key;
    }
  }
  out += "\n";
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string label = csv_field(names.names[i]);
    for (const RankResult& rank : rows[i].ranks) {
      for (const Sample& sample : rank.samples) {
        out += fmt::format("{},{},{},{},{},{},{}", i + 1, label, rows[i].repetition,
                           rows[i].emulated ? 1 : 0, rank.rank, sample.step, sample.warmup ? 1 : 0);
        for (const auto& [kind, quantity] : columns) {
          out += "," + (kind == rows[i].kind ? sample.text(*quantity) : "");
        }
        out += "\n";
      }
    }
  }
  return out;
}

}  // namespace ddprun
