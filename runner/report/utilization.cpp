// Operations of the model, from its configuration, over the time of a step.
#include "runner/report/utilization.h"

#include <algorithm>

#include "ddprun/measure/device_peak.h"

namespace ddprun {

Utilization utilization(const Row& row, const RunStatistics& statistics) {
  Utilization out;
  const auto ranks = static_cast<double>(row.ranks.size());
  out.tflops = row.flops_per_token * statistics.tokens_per_s / ranks * 1e-12;
  if (row.emulated) {
    out.refusal = "the ranks shared one GPU";
    return out;
  }
  const RankResult& first = row.ranks.front();
  const bool alike =
      std::all_of(row.ranks.begin(), row.ranks.end(), [&first](const RankResult& rank) {
        return rank.device_name == first.device_name && rank.matmul_dtype == first.matmul_dtype;
      });
  if (!alike) {
    out.refusal = "the ranks' devices differ";
    return out;
  }
  const DevicePeak peak = device_peak(first.device_name, first.matmul_dtype);
  out.refusal = peak.refusal;
  if (peak.flops > 0) out.mfu = out.tflops * 1e12 / peak.flops;
  return out;
}

std::vector<std::string> utilization_notes(const std::vector<Row>& rows) {
  std::vector<std::string> notes;
  for (const Row& row : rows) {
    if (!row.measured() || row.emulated || row.ranks.front().device_name.empty()) continue;
    const auto statistics = compute_statistics(row.ranks, row.global_batch, row.context_length);
    const std::string refusal = utilization(row, statistics).refusal;
    if (refusal.empty()) continue;
    const std::string note = "no MFU: " + refusal;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  return notes;
}

}  // namespace ddprun
