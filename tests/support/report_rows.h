// Rows with known samples, for tests of reports.
#pragma once

#include <string>

#include "runner/report/row.h"

namespace ddprun::test {

/// Two ranks: one warm-up step of 1000 ms, then steps of 10, 20 and 30 ms on rank 0, and 2 ms more
/// on rank 1. A quarter of each step is forward, half is exposed communication. Of 8 ms of
/// communication 2 ms are overlapped. Collectives start 0.5 ms late on rank 0 and 1 ms on rank 1.
inline Row known_row(const std::string& label) {
  Row row;
  row.name = "known";
  row.label = label;
  row.status = row_status::kOk;
  row.fingerprint = "f-" + label;
  row.world_size = 2;
  row.global_batch = 8;
  row.context_length = 16;
  for (int rank = 0; rank < 2; ++rank) {
    RankResult result;
    result.rank = rank;
    for (int step = 0; step < 4; ++step) {
      StepSample s;
      s.step = step;
      s.warmup = step == 0;
      s.step_ms = step == 0 ? 1000 : 10 * step + 2 * rank;
      s.forward_ms = s.step_ms / 4;
      s.exposed_ms = s.step_ms / 2;
      s.communication_ms = 8;
      s.overlapped_ms = 2;
      s.launch_delay_ms = 0.5 + 0.5 * rank;
      s.loss = 5 - step + rank;
      s.collectives = 3;
      s.bytes = 2'500'000;
      result.samples.push_back(s);
    }
    result.checks = {{"integer_gradients", "passed", "equal"},
                     {"parameters_equal", "passed", "equal"}};
    row.ranks.push_back(result);
  }
  return row;
}

}  // namespace ddprun::test
