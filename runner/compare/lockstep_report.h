// The verdict of `ddprun diff` on what the ranks measured, as JSON and in words.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/report/terminal.h"

namespace ddprun {

/// `found` of an experiment that follows and `lead` of the one that leads
/// (RunnableKind::lockstep_rank()): gives each difference its `ulp`, of the coarser format of the
/// two, and adds `phases` (of each the format, the bound and the largest difference), `parts` (the
/// first difference beyond its bound, with its step, or null) and `passed`. `ulp`: what passes in
/// forward and backward.
nlohmann::json judge_lockstep(nlohmann::json found, const nlohmann::json& lead,
                              std::optional<double> ulp);

/// What judge_lockstep() returned, in two lines or three for people. `names` of both.
std::string lockstep_text(const nlohmann::json& judged, const std::string& lead,
                          const std::string& name, const Terminal& terminal);

}  // namespace ddprun
