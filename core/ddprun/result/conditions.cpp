// Conditions compared, name by name.
#include "ddprun/result/conditions.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "ddprun/base/ranges.h"

namespace ddprun {

using nlohmann::json;

namespace {

std::string text_of(const json& group, const std::string& name) {
  const auto found = group.find(name);
  if (found == group.end()) return "none";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// The figures of each round, in the order of the runs.
std::map<std::int64_t, std::vector<double>> by_round(const RowRuns& row, const RunFigure& figure) {
  std::map<std::int64_t, std::vector<double>> out;
  for (const RunStatistics* run : row) {
    if (const auto value = figure(*run)) out[run->run().round].push_back(*value);
  }
  return out;
}

std::vector<double> all_of(const std::map<std::int64_t, std::vector<double>>& rounds) {
  std::vector<double> out;
  for (const auto& [round, values] : rounds) out.insert(out.end(), values.begin(), values.end());
  return out;
}

}  // namespace

const json& world_of(const Run& run) {
  static const json none;
  const bool has = run.config.is_object() && run.config.contains("world");
  return has ? run.config.at("world") : none;
}

json observed_conditions(const Run& run) {
  const std::map<std::string, std::string>& first = run.ranks.at(0).conditions;
  json out = first;
  for (const RankResult& rank : run.ranks) {
    for (const auto& [name, text] : rank.conditions) {
      const auto known = first.find(name);
      if (known != first.end() && known->second == text) continue;
      out[fmt::format("{} on rank {}", name, rank.rank)] = text;
    }
  }
  return out;
}

std::vector<Difference> differences(const json& first, const json& second,
                                    const std::string& without) {
  std::vector<Difference> out;
  for (const auto& [group, others] : second.items()) {
    if (group == without) continue;
    const json facts = first.value(group, json::object());
    std::set<std::string> names;
    for (const auto& [name, text] : facts.items()) names.insert(name);
    for (const auto& [name, text] : others.items()) names.insert(name);
    for (const std::string& name : names) {
      Difference difference{name, text_of(facts, name), text_of(others, name)};
      if (difference.first != difference.second) out.push_back(std::move(difference));
    }
  }
  return out;
}

std::string then_and_now(const std::vector<Difference>& differences) {
  const auto text = [](const Difference& each) {
    const auto& [name, then, now] = each;
    return fmt::format("{}: {} then, {} now", name, then, now);
  };
  return list_text(mapped(differences, text), "; ");
}

std::vector<Difference> unasked_differences(const Run& first, const Run& second) {
  if (world_of(first) != world_of(second)) return {};
  return differences(first.conditions, second.conditions, kLibraries);
}

std::string not_in_turn(const RowRuns& one, const RowRuns& other) {
  RowRuns runs = one;
  runs.insert(runs.end(), other.begin(), other.end());
  for (const RunStatistics* run : runs) {
    for (const RunStatistics* before : {one.front(), other.front()}) {
      const auto unlike = unasked_differences(before->run(), run->run());
      if (unlike.empty()) continue;
      return fmt::format("{}: {} and {}", unlike[0].name, unlike[0].first, unlike[0].second);
    }
    if (!(run->run().occasion == one.front()->run().occasion)) return "measured at different times";
  }
  return {};
}

Comparison compare_rows(const RowRuns& own, const RowRuns& base, const RunFigure& figure,
                        std::size_t chosen_from) {
  const auto own_rounds = by_round(own, figure), base_rounds = by_round(base, figure);
  const auto chosen = static_cast<int>(chosen_from);
  std::string why = not_in_turn(own, base);
  std::vector<double> own_means, base_means;
  for (const auto& [round, values] : own_rounds) {
    const auto other = base_rounds.find(round);
    if (other == base_rounds.end()) continue;
    own_means.push_back(summarize(values).mean);
    base_means.push_back(summarize(other->second).mean);
  }
  if (why.empty() && own_means.empty()) why = "no round with both";
  if (!why.empty()) return compare(all_of(own_rounds), all_of(base_rounds), chosen, why);
  return compare_in_turns(std::move(own_means), std::move(base_means), chosen);
}

Comparison compare_twins(const RowRuns& row, const RunFigure& figure) {
  std::vector<double> first, second;
  for (const auto& [round, values] : by_round(row, figure)) {
    if (values.size() < 2) continue;
    const bool turned = round % 2 == 0;
    first.push_back(values[turned ? 1 : 0]);
    second.push_back(values[turned ? 0 : 1]);
  }
  return compare_in_turns(std::move(first), std::move(second));
}

}  // namespace ddprun
