// The highest phase of an account, what it sends, its JSON, and its collectives played against its
// computing.
#include "ddprun/result/account.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/link_waits.h"
#include "ddprun/measure/phase.h"
#include "ddprun/result/plain_json.h"

namespace ddprun {

using nlohmann::json;

static void to_json(json& out, const PhaseAccount& account) {
  json bytes = json::object();
  for (const MemoryCategory category : kChoices<MemoryCategory>) {
    bytes[name_of(category)] = account.at_peak[category];
  }
  out = {{"phase", account.phase}, {"bytes", account.at_peak.sum()}, {"by_category", bytes}};
}

static void from_json(const json& in, PhaseAccount& account) {
  in.at("phase").get_to(account.phase);
  for (const MemoryCategory category : kChoices<MemoryCategory>) {
    in.at("by_category").at(name_of(category)).get_to(account.at_peak[category]);
  }
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ComputeWork, operations, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveAccount, kind, bytes, ranks, ranks_per_host, count,
                                   enqueued, awaited)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Account, ranks, rank, phases, collectives, work, products,
                                   tokens, unknown)

const PhaseAccount* Account::peak(bool steps_alone) const {
  const PhaseAccount* highest = nullptr;
  for (const PhaseAccount& each : phases) {
    if (steps_alone && each.phase == to_string(Phase::setup)) continue;
    if (highest == nullptr || each.at_peak.sum() > highest->at_peak.sum()) highest = &each;
  }
  return highest;
}

double Account::wire_bytes() const {
  double sum = 0;
  for (const CollectiveAccount& each : collectives) {
    sum += static_cast<double>(each.count) * ddprun::wire_bytes(each.kind, each.bytes, each.ranks);
  }
  return sum;
}

json to_json(const Account& account) { return account; }

Account account_from_json(const json& value) {
  try {
    return value.get<Account>();
  } catch (const json::exception& error) {
    throw Error({.what = "an account lacks what every account has",
                 .where = "predicted",
                 .got = error.what(),
                 .expected = "ranks, rank, phases, collectives, work, products, tokens and unknown",
                 .hint = "it was written by another program, or by hand: predict it again"});
  }
}

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
