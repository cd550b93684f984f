// The timeline of a step: what each rank did when, and what of its waiting nothing hid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/comm/group/collective.h"
#include "ddprun/measure/intervals.h"

namespace ddprun {

struct TimeSpan {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// What one rank did in a step. Times: nanoseconds of now_ns().
struct StepTimeline {
  std::int64_t step = 0;  ///< 0 is the first warm-up step
  std::int64_t begin_ns = 0;
  /// Of the training thread, one after another. An `update` lies within `synchronize`.
  std::vector<TimeSpan> phases = {};
  /// The model's units as forward and backward went through them. On a GPU there are none.
  std::vector<TimeSpan> units = {};
  /// When each parameter's gradient was final on this rank, in order of time. None on a GPU.
  std::vector<std::int64_t> gradients_ns = {};
  std::vector<CollectiveRecord> collectives = {};  ///< in the order of enqueueing

  std::int64_t end_ns() const;
};

/// The last steps of each rank of a row, in order.
struct RowTimeline {
  std::string name;
  std::vector<const std::vector<StepTimeline>*> ranks = {};  ///< empty: it was not measured
};

/// Whether all ranks have the same number of collectives, so that each stands for those of others.
bool comparable(const std::vector<const StepTimeline*>& ranks);

/// The lane of each, 0 or more, the first that is free: those of a time stand below each other.
std::vector<int> lanes_of(const std::vector<CollectiveRecord>& collectives);

/// When the training thread of a rank waited for others, in order of time.
struct Waits {
  std::vector<Interval> exposed = {};  ///< for communication: what each rank waited
  std::vector<Interval> skew = {};     ///< for ranks that came later: what this one waited longer
};

/// The waits of each rank in one step of all ranks. Of each wait for a collective, the end is
/// exposed that is as long as the shortest wait of a rank for it; so is, of what `synchronize`
/// has beside updates and waits, the end that is as long as the shortest of a rank. Ranks with
/// different numbers of collectives are compared in their whole waiting. It sums up to `exposed_ms`
/// (docs/measurement.md).
std::vector<Waits> waits_of(const std::vector<const StepTimeline*>& ranks);

}  // namespace ddprun
