// What a step would wait for its collectives if a link that carries them one by one were all that
// takes time: the step's own record, replayed.
//
// Family: link_waits.cpp measure_link.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ddprun/comm/group/collective.h"

namespace ddprun {

class ProcessGroup;
struct LineFit;

/// How long a collective of one kind takes when nothing else runs (Hockney 1994).
struct CollectiveCost {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 1;  ///< between which it was measured
  double latency_us = 0;
  double gb_per_s = 0;  ///< payload bytes / (time - latency), 1e9 a second

  double ns(std::int64_t bytes) const {
    return latency_us * 1e3 + static_cast<double>(bytes) / gb_per_s;
  }
};

/// One for each kind that a step has.
using LinkCosts = std::vector<CollectiveCost>;

/// A collective as the thread sees it that calls it. Times in any unit, from any moment on.
struct LinkCall {
  double asked = 0;
  std::optional<double> wait_begin = {};  ///< nothing: nobody waits
  double wait_end = 0;                    ///< as it was; wait_begin of one that is planned
  double takes = 0;
};

/// How long the thread would wait on a link that carries these one by one, in the order of asking,
/// and takes so long for each. What the thread does between its waits takes as long as it did.
double waits_on_link(const std::vector<LinkCall>& calls);

/// What stands for a collective of that kind and number of ranks; null: nothing does.
const CollectiveCost* cost_of(const CollectiveRecord& record, const LinkCosts& costs);

/// Milliseconds of one step.
struct LinkWaits {
  /// Waited for the link, with each collective asked for when it was.
  double bound_ms = 0;
  /// The same, if each had been asked for when its forward, backward or update began: more is sent
  /// than computing hides.
  double earliest_ms = 0;
  /// What of bound_ms is gone without latency.
  double latency_ms = 0;
};

/// `records`: of one rank in one step, in the order of enqueueing. `begins_ns`: of its forwards,
/// backwards and update, rising. The thread computes as it did, and its waits alone change. Nothing
/// if `costs` lack a kind or its number of ranks, or if no wait is on record.
std::optional<LinkWaits> link_waits(const std::vector<CollectiveRecord>& records,
                                    const std::vector<std::int64_t>& begins_ns,
                                    const LinkCosts& costs);

/// Calls each kind of collective that `records` have, at four sizes up to the largest of them (at
/// most 4 MiB), a few times: some 20 ms. Where a call takes long, each size is called once. A size
/// counts with its fastest call on any rank, in float32, in memory of the backend's own. All ranks
/// call it, and get the same; it blocks, and its collectives are recorded. Barriers, and a kind
/// whose times are on no rising line, are left out. Throws CommError.
LinkCosts measure_link(ProcessGroup& group, const std::vector<CollectiveRecord>& records);

/// A line through the fastest call of each size in `bytes`, in microseconds, of as many as four
/// measurements: it is measured again while the line does not rise. Nothing if it never does.
std::optional<LineFit> rising_line(const std::vector<double>& bytes,
                                   const std::function<std::vector<float>()>& fastest_of_sizes);

}  // namespace ddprun
