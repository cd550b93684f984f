// How long a step takes on paper: its products and its memory at a rate each, its collectives over
// links.
#pragma once

#include <limits>

#include "ddprun/comm/group/link.h"
#include "ddprun/result/account.h"

namespace ddprun {

/// What a rank computes with, and what joins it to others.
struct RankSpeed {
  double operations_per_s = 0;  ///< of products
  double bytes_per_s =
      std::numeric_limits<double>::infinity();  ///< of memory; else it takes no time
  Links links = {};

  double seconds(const ComputeWork& work) const {
    return work.operations / operations_per_s + work.bytes / bytes_per_s;
  }
};

/// Of one rank.
struct StepTime {
  double computing_s = 0;
  double communication_s = 0;  ///< of all collectives, one after another
  double exposed_s = 0;        ///< what the rank waits for them
  double step_s() const { return computing_s + exposed_s; }
};

/// Account::work takes its operations and then its bytes at their rates. Collectives run one at a
/// time in the order of enqueueing, each from the moment when it is enqueued and the one
/// before is done; the rank goes on computing until it needs one that is not.
StepTime step_time(const Account& account, const RankSpeed& speed);

}  // namespace ddprun
