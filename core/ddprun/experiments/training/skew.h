// What ranks waited for one another, apart from what they waited for communication.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/measure/intervals.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/sample.h"

namespace ddprun {

/// How long this rank's thread waited for collectives, nanoseconds, between two times. On a GPU it
/// never does: streams wait.
std::int64_t waited_between(const std::vector<CollectiveRecord>& records, std::int64_t from_ns,
                            std::int64_t to_ns);
/// How long collectives ran, nanoseconds, between two times, while it waited for none.
std::int64_t overlapped_between(const std::vector<CollectiveRecord>& records, std::int64_t from_ns,
                                std::int64_t to_ns);

/// A collective ends after the last rank has joined it, and that rank waits for communication
/// alone: it waits least. So the least of the ranks' waits for a collective is communication, and
/// what another waits longer is skew. A rank that waits several times a step can be the last of one
/// collective and the first of the next, so each collective has a least wait of its own.
class SkewAccount {
 public:
  /// After each step: its collectives in the order of enqueueing.
  void add(const std::vector<CollectiveRecord>& records);
  /// Fills exposed_ms, skew_ms and busbw_gb_per_s of `samples`, one of each added step, and forgets
  /// the steps. All ranks call it; it blocks. Throws CommError.
  void settle(std::vector<Sample>& samples, ProcessGroup& group);

 private:
  struct Step {
    std::vector<Interval> collectives = {};  ///< from start to end, nanoseconds
    std::vector<double> waits_ms = {};       ///< of each collective
    double wire_bytes = 0;
  };
  std::vector<Step> steps_;
};

}  // namespace ddprun
