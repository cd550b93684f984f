// Rows with known samples, for tests of reports.
#pragma once

#include <string>

#include "ddprun/experiments/training/training.h"
#include "runner/report/row.h"

namespace ddprun::test {

/// Two ranks: one warm-up step of 1000 ms, then steps of 10, 20 and 30 ms on rank 0, and 2 ms more
/// on rank 1. A quarter of each step is forward, half is synchronization. Of 8 ms of
/// communication 2 ms are overlapped. Collectives start 0.5 ms late on rank 0 and 1 ms on rank 1.
inline Row known_row(const std::string& label) {
  const Training& q = training();
  Row row;
  row.kind = &q;
  row.name = "known";
  row.label = label;
  row.status = RowStatus::ok;
  row.fingerprint = "f-" + label;
  row.conditions = {{"ranks", nlohmann::json::object()}};
  row.world_size = 2;
  row.work = {{"sequences", 8}, {"tokens", 8 * 16}, {"flops", 0}};
  for (int rank = 0; rank < 2; ++rank) {
    RankResult result;
    result.rank = rank;
    for (int step = 0; step < 4; ++step) {
      Sample s(q);
      s.step = step;
      s.warmup = step == 0;
      s[q.step_ms] = step == 0 ? 1000 : 10 * step + 2 * rank;
      s[q.forward_ms] = s[q.step_ms] / 4;
      s[q.backward_ms] = 0;
      s[q.synchronize_ms] = s[q.step_ms] / 2;
      s[q.exposed_ms] = step == 0 ? 500 : 5 * step;
      s[q.skew_ms] = s[q.synchronize_ms] - s[q.exposed_ms];
      s[q.optimizer_ms] = 0;
      s[q.communication_ms] = 8;
      s[q.overlapped_ms] = 2;
      s[q.launch_delay_ms] = 0.5 + 0.5 * rank;
      s[q.loss] = 5 - step + rank;
      s[q.collectives] = 3;
      s[q.bytes] = 2'500'000;
      result.samples.push_back(s);
    }
    result.checks = {{"integer_gradients", CheckStatus::passed, "equal"},
                     {"parameters_equal", CheckStatus::passed, "equal"}};
    row.ranks.push_back(result);
  }
  return row;
}

inline void set_all(Row& row, const Quantity& quantity, double value) {
  for (RankResult& rank : row.ranks) {
    for (Sample& sample : rank.samples) sample[quantity] = value;
  }
}

inline void scale_steps(Row& row, double factor) {
  for (RankResult& rank : row.ranks) {
    for (Sample& sample : rank.samples) sample[training().step_ms] *= factor;
  }
}

}  // namespace ddprun::test
