// Plays a step's collectives against its computing.
#include "ddprun/result/step_time.h"

#include <vector>

#include "ddprun/comm/group/link_waits.h"

namespace ddprun {

StepTime step_time(const Account& account, const RankSpeed& speed) {
  StepTime time{.computing_s = speed.seconds(account.work)};
  std::vector<LinkCall> calls;
  for (const CollectiveAccount& each : account.collectives) {
    const double takes_s = static_cast<double>(each.count) *
                           collective_s(each.kind, static_cast<double>(each.bytes), each.ranks,
                                        each.ranks_per_host, speed.links);
    time.communication_s += takes_s;
    const double awaited_s = speed.seconds(each.awaited);
    calls.push_back({.asked = speed.seconds(each.enqueued),
                     .wait_begin = awaited_s,
                     .wait_end = awaited_s,
                     .takes = takes_s});
  }
  time.exposed_s = waits_on_link(calls);
  return time;
}

}  // namespace ddprun
