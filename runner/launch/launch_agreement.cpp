// Plans as JSON, compared key by key through the store of the launch.
#include "runner/launch/launch_agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/launch/host_layout.h"
#include "ddprun/comm/store/foreign_text.h"
#include "ddprun/measure/environment.h"
#include "ddprun/rank/affinity.h"
#include "ddprun/result/conditions.h"
#include "runner/launch/exit_status.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr const char* kTopic = "comparing experiments";
constexpr const char* kHint =
    "start every rank with the same arguments, files, build and variables";
/// Differences that are shown; the others are counted.
constexpr std::size_t kShown = 8;
/// How long a rank stays for the others to hear that they refuse: it may serve the store, or its
/// launcher may end them when it ends. They are still planning.
constexpr double kStayS = 5;
/// How long a rank that refuses looks for the store, to tell the others.
constexpr double kTellS = 10;

/// Without the folders that may differ between hosts.
json experiment_json(const PlannedRun& run) {
  json out = to_json(run.resolved);
  out.erase("output");
  out.erase("plugin_path");
  for (const PluginChoice& choice : run.experiment.plugins) {
    out[to_string(choice.kind)].erase("path");
  }
  out.update(run.conditions.value(kLibraries, json::object()));
  for (const auto& [key, hash] : run.experiment.contents) {
    out["contents of " + key] = fmt::format("{:016x}", hash);
  }
  return out;
}

/// "train.steps" of "/train/steps"
std::string dotted(const std::string& pointer) {
  std::string key = pointer.substr(pointer.empty() ? 0 : 1);
  std::ranges::replace(key, '/', '.');
  return key;
}

/// "8 on rank 0; 16 on rank 1, 2"
std::string values_text(const std::vector<json>& plans, const std::string& key) {
  Groups<std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    ranks_of[plans[rank].contains(key) ? json_text(plans[rank][key]) : "nothing"].push_back(rank);
  }
  const auto text = [](const auto& each) {
    return fmt::format("{} on rank {}", each.first, fmt::join(each.second, ", "));
  };
  return list_text(mapped(ranks_of, text), "; ");
}

std::string place_text(const RankInfo& rank) {
  return fmt::format("rank {} of {}", rank.rank, rank.world_size);
}

/// The first file's first run says how long ranks wait for one another; so they all do here.
double timeout_of(const std::vector<PlannedFile>& files) {
  for (const PlannedFile& file : files) {
    if (!file.runs.empty()) return file.runs.front().experiment.world.comm.timeout_s;
  }
  return CommConfig{}.timeout_s;
}

/// bound_ranks(), or what is wrong with the plans, from what all ranks brought.
std::string decision_of(const std::vector<std::string>& texts) {
  std::vector<std::string> plans;
  std::vector<CoreClaim> claims;
  for (const std::string& text : texts) {
    const std::string where = fmt::format("rank {} of {}, {}", plans.size(), texts.size(), kTopic);
    read_foreign(text, where, [&](const json& claim) {
      claims.push_back({claim.at("host"), claim.at("cores")});
      plans.push_back(claim.at("plan"));
    });
  }
  const ErrorText wrong = compare_plans(plans);
  return wrong.what.empty() ? json_text(bound_ranks(claims)) : json_text(wrong);
}

}  // namespace

std::string plan_text(std::string_view command, const std::vector<PlannedFile>& files) {
  json plan = {{"command", command}};
  const json process = process_conditions();
  plan.update(process.at(kSoftware));
  for (const auto& [name, value] : process.at(kEnvironment).items()) {
    plan["environment variable " + name] = value;
  }
  const bool several = files.size() > 1;
  for (const PlannedFile& file : files) {
    const std::string prefix = several ? file.name + ": " : "";
    plan[prefix + "name"] = file.name;
    plan[prefix + "report.repeats"] = file.report.repeats;
    plan[prefix + "report.aa"] = file.report.aa;
    plan[prefix + "report.open"] = file.report.open();
    if (!file.error.empty()) plan[prefix + "refused"] = file.error;
    for (std::size_t row = 0; row < file.runs.size(); ++row) {
      const std::string place =
          file.runs.size() > 1 ? fmt::format("{}row {}: ", prefix, row + 1) : prefix;
      const json settings = experiment_json(file.runs[row]).flatten();
      for (const auto& [key, value] : settings.items()) plan[place + dotted(key)] = value;
    }
  }
  return json_text(plan);
}

std::vector<bool> bound_ranks(const std::vector<CoreClaim>& ranks) {
  std::map<std::string, std::set<int>> taken;  // of each host
  std::set<std::string> shared;                // hosts
  for (const CoreClaim& rank : ranks) {
    for (const int core : rank.cores) {
      if (!taken[rank.host].insert(core).second) shared.insert(rank.host);
    }
  }
  return mapped(ranks, [&](const CoreClaim& rank) { return !shared.contains(rank.host); });
}

ErrorText compare_plans(const std::vector<std::string>& texts) {
  std::vector<json> plans;
  std::set<std::string> keys;
  for (const std::string& text : texts) {
    const std::string where = fmt::format("rank {} of {}, {}", plans.size(), texts.size(), kTopic);
    plans.push_back(read_foreign(
        text, where, [](const json& plan) { return json(plan.get<json::object_t>()); }));
    for (const auto& [key, value] : plans.back().items()) keys.insert(key);
  }
  std::vector<std::string> differences;
  std::size_t count = 0;
  for (const std::string& key : keys) {
    const auto same = [&](const json& plan) {
      return plan.contains(key) && plans[0].contains(key) && plan[key] == plans[0][key];
    };
    if (std::ranges::all_of(plans, same)) continue;
    if (++count <= kShown) differences.push_back(key + " = " + values_text(plans, key));
  }
  if (count == 0) return {};
  if (count > kShown) differences.push_back(fmt::format("and {} more", count - kShown));
  return {.what = "the ranks of this launch would run different experiments",
          .where = fmt::format("{} ranks", texts.size()),
          .got = list_text(differences, "\n       "),
          .expected = "the same experiment, plugins, ddprun and environment on every rank",
          .hint = kHint};
}

int agree_on_plan(const RankInfo& joined, std::string_view command,
                  const std::vector<PlannedFile>& files) {
  const double timeout_s = timeout_of(files);
  const json claim = {
      {"plan", plan_text(command, files)}, {"host", host_identity()}, {"cores", usable_cores()}};
  const std::string text =
      decide_in_launch(joined, kTopic, json_text(claim), timeout_s, decision_of);
  bool bound = false;
  const auto refusal = read_foreign(
      text, fmt::format("{}, {}", place_text(joined), kTopic), [&](const json& decision) {
        if (!decision.is_array()) return std::optional(decision.get<ErrorText>());
        bound = decision.at(static_cast<std::size_t>(joined.rank)).get<bool>();
        return std::optional<ErrorText>();
      });
  if (!refusal) {
    if (bound) keep_own_cores();
    return kExitDone;
  }
  std::cerr << "error: " << ConfigError(*refusal).what() << std::endl;
  wait_until_heard(joined, kTopic, kStayS);
  return kExitUsage;
}

int refuse_plan(const std::optional<RankInfo>& joined, const std::string& refusal) {
  std::cerr << "error: " << refusal << std::endl;
  if (!joined) return kExitUsage;
  const ErrorText text = {.what = fmt::format("rank {} refused its configuration", joined->rank),
                          .where = place_text(*joined),
                          .got = boost::replace_all_copy(refusal, "\n", "\n    "),
                          .expected = "an experiment that every rank can run",
                          .hint = kHint};
  try {
    impose_in_launch(*joined, kTopic, json_text(text), kTellS);
    wait_until_heard(*joined, kTopic, kStayS);
  } catch (const std::exception& failure) {
    spdlog::debug("the other ranks could not be told: {}", failure.what());
  }
  return kExitUsage;
}

}  // namespace ddprun
