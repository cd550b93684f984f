// Failures travel through the store, which outlives the process group.
#include "runner/launch/joined_failure.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ddprun/base/failure.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/comm/store/foreign_text.h"

namespace ddprun {

namespace {

using nlohmann::json;

json to_json(const FailureReport& failure) {
  json calls = json::array();
  for (const CollectiveCall& call : failure.recent.calls) {
    calls.push_back({call.number, call.kind, call.bytes, call.label});
  }
  return {name_of(failure.kind), failure.reason, failure.recent.phase, std::move(calls)};
}

FailureReport failure_from_json(const json& from) {
  FailureReport failure{
      choice_of<FailureKind>(from.at(0).get<std::string>()).value_or(FailureKind::other),
      from.at(1),
      {from.at(2), {}}};
  for (const json& call : from.at(3)) {
    failure.recent.calls.push_back(make_call(call.at(0), call.at(1).get<std::string>(), call.at(2),
                                             call.at(3).get<std::string>()));
  }
  return failure;
}

/// The failure of every rank of a failed run, in rank order. Throws CommError, which names the
/// ranks that say nothing within `limit_s`.
std::vector<FailureReport> failures_of_all(const RankInfo& info, const std::string& run_id,
                                           const FailureReport& own, double limit_s) {
  const auto all = [](const std::vector<std::string>& texts) { return json_text(texts); };
  const std::string topic = "failed " + run_id;
  const std::string texts = decide_in_launch(info, topic, json_text(to_json(own)), limit_s, all);
  if (info.rank == 0) wait_until_heard(info, topic, limit_s);  // it may serve the store
  return read_foreign(texts, info.place() + ", " + topic, [](const json& list) {
    return mapped(list, [](const json& text) {
      return failure_from_json(parse_json(text.get<std::string>()));
    });
  });
}

bool is_memory(const FailureReport& failure) { return failure.kind == FailureKind::out_of_memory; }

}  // namespace

FailureReport failure_of(const RankInfo& info, const RankError& error, const LaunchBoard& board) {
  return {error.kind, reason_of(error, info.rank, info.world_size), board.recent_calls(info.rank)};
}

std::optional<std::string> different_calls(const std::vector<FailureReport>& failures) {
  if (!std::ranges::all_of(failures, may_be_a_peers_fault, &FailureReport::kind)) return {};
  const auto error = ddprun::different_calls(mapped(failures, &FailureReport::recent));
  return error ? std::optional(error->what()) : std::nullopt;
}

Outcome agree_on_failure(const RankInfo& info, const std::string& run_id, double limit_s,
                         const FailureReport& own) {
  Outcome outcome{
      is_memory(own) ? Outcome::Status::out_of_memory : Outcome::Status::failed, own.reason, 0, {}};
  std::vector<FailureReport> failures;
  try {
    failures = failures_of_all(info, run_id, own, limit_s);
  } catch (const std::exception& error) {
    outcome.reason += "\n  the other ranks: " + message_of(error);
    return outcome;
  }
  if (const auto memory = std::ranges::find_if(failures, is_memory); memory != failures.end()) {
    outcome.status = Outcome::Status::out_of_memory;
    outcome.reason = memory->reason;
    outcome.next_can_run = std::ranges::all_of(failures, [](const FailureReport& failure) {
      return is_memory(failure) || may_be_a_peers_fault(failure.kind);
    });
  } else if (auto reason = different_calls(failures)) {
    outcome.reason = std::move(*reason);
  }
  return outcome;
}

}  // namespace ddprun
