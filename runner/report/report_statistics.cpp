// Statistics over steps and ranks.
#include "runner/report/report_statistics.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ddprun {

namespace {

void require_same_steps(const std::vector<RankResult>& ranks) {
  if (ranks.empty()) throw std::invalid_argument("no rank has a result");
  const auto& first = ranks[0].samples;
  for (const RankResult& rank : ranks) {
    const bool same = std::equal(first.begin(), first.end(), rank.samples.begin(),
                                 rank.samples.end(), [](const StepSample& a, const StepSample& b) {
                                   return a.step == b.step && a.warmup == b.warmup;
                                 });
    if (!same) {
      throw std::invalid_argument("rank " + std::to_string(rank.rank) +
                                  " has other steps than rank " + std::to_string(ranks[0].rank));
    }
  }
  if (first.empty() || first.back().warmup) throw std::invalid_argument("no step was measured");
}

/// The values of one field at step index `i`, one a rank.
std::vector<double> over_ranks(const std::vector<RankResult>& ranks, std::size_t i,
                               double StepSample::*field) {
  std::vector<double> values;
  for (const RankResult& rank : ranks) values.push_back(rank.samples[i].*field);
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double max(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}
double min(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double combine(const std::vector<double>& values, OverRanks how) {
  if (how == OverRanks::slowest) return max(values);
  return how == OverRanks::least ? min(values) : mean(values);
}

}  // namespace

RunStatistics compute_statistics(const std::vector<RankResult>& ranks, std::int64_t global_batch,
                                 std::int64_t context_length) {
  require_same_steps(ranks);
  const std::vector<StepSample>& steps = ranks[0].samples;
  RunStatistics out;
  std::array<std::vector<double>, kTimeColumns.size()> columns;
  std::vector<double> skew, bytes, collectives;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    out.skipped_steps += std::any_of(ranks.begin(), ranks.end(), [i](const RankResult& rank) {
      return rank.samples[i].skipped;
    });
    if (steps[i].warmup) continue;
    for (std::size_t c = 0; c < kTimeColumns.size(); ++c) {
      const std::vector<double> values = over_ranks(ranks, i, kTimeColumns[c].value);
      columns[c].push_back(combine(values, kTimeColumns[c].over_ranks));
    }
    const std::vector<double> exposed = over_ranks(ranks, i, &StepSample::exposed_ms);
    skew.push_back(mean(exposed) - min(exposed));
    bytes.push_back(static_cast<double>(steps[i].bytes));
    collectives.push_back(static_cast<double>(steps[i].collectives));
  }
  for (std::size_t c = 0; c < columns.size(); ++c) out.columns[c] = summarize(columns[c]);
  out.skew = summarize(skew);
  for (const RankResult& rank : ranks) {
    std::vector<double> own;
    for (const StepSample& sample : rank.samples) {
      if (!sample.warmup) own.push_back(sample.step_ms);
    }
    out.rank_step_ms.push_back(summarize(own));
    out.first_step_done_s = std::max(out.first_step_done_s, rank.first_step_done_s);
  }
  const double step_s = out.step_ms().median * 1e-3;
  if (step_s > 0) {
    out.samples_per_s = static_cast<double>(global_batch) / step_s;
    out.tokens_per_s = out.samples_per_s * static_cast<double>(context_length);
    out.exposed_share = out.exposed_ms().median / out.step_ms().median;
  }
  if (out.communication_ms().mean > 0) {
    out.overlapped_share = out.overlapped_ms().mean / out.communication_ms().mean;
  }
  out.bytes_per_step = mean(bytes);
  out.collectives_per_step = mean(collectives);
  out.loss_first = mean(over_ranks(ranks, 0, &StepSample::loss));
  out.loss_last = mean(over_ranks(ranks, steps.size() - 1, &StepSample::loss));
  return out;
}

}  // namespace ddprun
