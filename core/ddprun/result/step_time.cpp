// Plays a step's collectives against its computing.
#include "ddprun/result/step_time.h"

#include <algorithm>
#include <limits>
#include <map>

namespace ddprun {

StepTime step_time(const Account& account, const RankSpeed& speed) {
  StepTime time{.computing_s = account.operations / speed.operations_per_s};
  double link_free_s = 0;
  std::multimap<double, double> waits;  // operations when one is needed -> when it is done
  const auto now_s = [&](double operations) {
    return operations / speed.operations_per_s + time.exposed_s;
  };
  const auto wait_before = [&](double operations) {
    while (!waits.empty() && waits.begin()->first < operations) {
      const auto [awaited, done_s] = *waits.begin();
      waits.erase(waits.begin());
      time.exposed_s += std::max(0.0, done_s - now_s(awaited));
    }
  };
  for (const CollectiveAccount& each : account.collectives) {
    wait_before(each.enqueued);
    const double takes_s = static_cast<double>(each.count) *
                           collective_s(each.kind, static_cast<double>(each.bytes), each.ranks,
                                        each.ranks_per_host, speed.links);
    time.communication_s += takes_s;
    link_free_s = std::max(link_free_s, now_s(each.enqueued)) + takes_s;
    waits.emplace(each.awaited, link_free_s);
  }
  wait_before(std::numeric_limits<double>::infinity());
  return time;
}

}  // namespace ddprun
