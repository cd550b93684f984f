// The highest phase of an account, what it sends, and its JSON.
#include "ddprun/result/account.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

using nlohmann::json;

namespace {

json json_of(const ComputeWork& work) {
  return {{"operations", work.operations}, {"bytes", work.bytes}};
}

ComputeWork work_of(const json& value) {
  return {value.at("operations").get<double>(), value.at("bytes").get<double>()};
}

}  // namespace

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

json to_json(const Account& account) {
  json phases = json::array(), collectives = json::array();
  for (const PhaseAccount& each : account.phases) {
    json bytes = json::object();
    for (const char* name : kChoiceNames<MemoryCategory>) {
      bytes[name] = each.at_peak[value_named<MemoryCategory>(name)];
    }
    phases.push_back(
        {{"phase", each.phase}, {"bytes", each.at_peak.sum()}, {"by_category", bytes}});
  }
  for (const CollectiveAccount& each : account.collectives) {
    collectives.push_back({{"kind", name_of(each.kind)},
                           {"bytes", each.bytes},
                           {"ranks", each.ranks},
                           {"ranks_per_host", each.ranks_per_host},
                           {"count", each.count},
                           {"enqueued", json_of(each.enqueued)},
                           {"awaited", json_of(each.awaited)}});
  }
  return {{"ranks", account.ranks},        {"rank", account.rank},
          {"phases", std::move(phases)},   {"collectives", std::move(collectives)},
          {"work", json_of(account.work)}, {"products", account.products},
          {"tokens", account.tokens},      {"unknown", account.unknown}};
}

Account account_from_json(const json& value) {
  try {
    Account account{.ranks = value.at("ranks").get<int>(),
                    .rank = value.at("rank").get<int>(),
                    .work = work_of(value.at("work")),
                    .products = value.at("products").get<std::string>(),
                    .tokens = value.at("tokens").get<std::int64_t>(),
                    .unknown = value.at("unknown").get<std::string>()};
    for (const json& each : value.at("phases")) {
      PhaseAccount phase{.phase = each.at("phase").get<std::string>()};
      for (const char* name : kChoiceNames<MemoryCategory>) {
        phase.at_peak[value_named<MemoryCategory>(name)] =
            each.at("by_category").at(name).get<std::int64_t>();
      }
      account.phases.push_back(std::move(phase));
    }
    for (const json& each : value.at("collectives")) {
      account.collectives.push_back(
          {.kind = value_named<CollectiveKind>(each.at("kind").get<std::string>()),
           .bytes = each.at("bytes").get<std::int64_t>(),
           .ranks = each.at("ranks").get<int>(),
           .ranks_per_host = each.at("ranks_per_host").get<int>(),
           .count = each.at("count").get<std::int64_t>(),
           .enqueued = work_of(each.at("enqueued")),
           .awaited = work_of(each.at("awaited"))});
    }
    return account;
  } catch (const json::exception& error) {
    throw Error({.what = "an account lacks what every account has",
                 .where = "predicted",
                 .got = error.what(),
                 .expected = "ranks, rank, phases, collectives, work, products, tokens and unknown",
                 .hint = "it was written by another program, or by hand: predict it again"});
  }
}

}  // namespace ddprun
