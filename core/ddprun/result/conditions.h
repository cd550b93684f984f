// Under which conditions runs were measured, and whether their figures may be compared.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"
#include "ddprun/result/row_runs.h"

namespace ddprun {

/// The groups of Run::conditions: each is an object of texts, by name.
inline constexpr const char* kMachine = "machine";
inline constexpr const char* kSoftware = "software";
inline constexpr const char* kEnvironment = "environment";
inline constexpr const char* kLibraries = "libraries";  ///< those that the experiment names
inline constexpr const char* kLaunch = "launch";
inline constexpr const char* kRanks = "ranks";  ///< what the ranks observed

/// The group kRanks of a run that was measured: what rank 0 observed, by its name ("backend"), and
/// what another rank observed where that is something else ("backend on rank 1").
nlohmann::json observed_conditions(const Run& run);

struct Difference {
  std::string name;           ///< without its group
  std::string first, second;  ///< "none": it is not there
};
/// Of all groups that `second` has, but `without`.
std::vector<Difference> differences(const nlohmann::json& first, const nlohmann::json& second,
                                    const std::string& without = {});
/// "backend: gloo then, shm now; ..."; empty: there is none.
std::string then_and_now(const std::vector<Difference>& differences);

/// The ranks, devices and backend that the run's experiment asks for; null: it does not say.
const nlohmann::json& world_of(const Run& run);

/// What differs for runs whose experiments ask for the same ranks, devices and backend: what the
/// machine made of it. Libraries are the experiment's own. Empty if they ask for others.
std::vector<Difference> unasked_differences(const Run& first, const Run& second);

/// Why the runs of two rows did not take turns under equal conditions, so that no test can tell
/// their difference from one of the times; empty: they did.
std::string not_in_turn(const RowRuns& one, const RowRuns& other);

/// A figure of a run; nothing: it has none.
using RunFigure = std::function<std::optional<double>(const RunStatistics& run)>;
/// The figures of two rows, round by round (compare_in_turns()), where one has several runs in a
/// round by their mean. Not tested where not_in_turn() has words.
Comparison compare_rows(const RowRuns& own, const RowRuns& base, const RunFigure& figure,
                        std::size_t chosen_from = 1);
/// The row beside itself: its two runs of each round that has both, the earlier one first in odd
/// rounds and second in even ones. So what the place in a round costs is no difference of them.
Comparison compare_twins(const RowRuns& row, const RunFigure& figure);

}  // namespace ddprun
