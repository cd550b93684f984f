// What limited each collective of a step.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/comm/group/link_waits.h"
#include "ddprun/profile/step_timeline.h"

namespace ddprun {

enum class CollectiveLimit : std::uint8_t {
  hidden,      ///< less than a twentieth of its time was waited for
  slow_rank,   ///< most of what ranks waited, they waited for one that joined it late
  contention,  ///< it took half as long again as it does when nothing else runs
  latency,     ///< most of its time on the link is latency
  late,        ///< asked for too late to be over when backward is
  link,        ///< the link was busy with others before it
  unknown,     ///< the link was not measured, or no wait is on record
};
constexpr auto choice_names(CollectiveLimit) {
  return std::array{"hidden", "slow_rank", "contention", "latency", "late", "link", "unknown"};
}

struct LimitedCollective {
  CollectiveRecord record = {};  ///< rank 0's
  double exposed_ms = 0;         ///< the least of the ranks' waits
  double waited_ms = 0;          ///< the mean of them
  double time_ms = 0;            ///< the shortest of the ranks', from start to end
  std::optional<double> link_ms = {};
  CollectiveLimit limit = CollectiveLimit::unknown;
};

/// Of a step of all ranks, in the order of enqueueing; empty: ranks have other numbers of them.
std::vector<LimitedCollective> limits_of(const std::vector<const StepTimeline*>& ranks,
                                         const LinkCosts& link);

}  // namespace ddprun
