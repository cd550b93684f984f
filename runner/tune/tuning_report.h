// What `ddprun tune` found, in words, as a table, CSV and JSON, and as the file that it recommends.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report_output.h"
#include "runner/report/row.h"
#include "runner/report/terminal.h"
#include "runner/tune/halving.h"
#include "runner/tune/tuning.h"

namespace ddprun {

struct TuningResult {
  const Tuning& tuning;
  const Halving& halving;
  std::vector<HalvingRound> rounds = {};
  std::vector<std::optional<Row>> last_rows = {};  ///< of each candidate, its last run that counts
  HalvingEnd end = HalvingEnd::none_left;
  double used_s = 0;
};

/// "round 1: 12 candidates, runs of 5 steps; 7 left; fastest so far flat, 31.20 ms a step (74 s)"
std::string round_words(const HalvingRound& round, const Tuning& tuning, const Halving& halving);

/// "left out: local_sgd, powersgd: ...", a line for each reason; of many their number.
std::string left_out_words(const Tuning& tuning);

/// The table of all candidates, and what follows from it.
std::string tuning_output(const TuningResult& result, ReportFormat format, const Terminal& terminal,
                          const nlohmann::json& as_json);

/// Rounds, candidates with all of their runs, and the winner, without what all results have.
nlohmann::json to_json(const TuningResult& result);

/// The file that is recommended; empty: no candidate ran. `machine`: what it was measured on.
std::string tuned_yaml(const TuningResult& result, const std::string& machine);

}  // namespace ddprun
