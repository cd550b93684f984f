// Makes a batch's rows from the plan, and completes them when their ranks have ended.
#pragma once

#include <string>

#include "runner/launch/plan.h"
#include "runner/launch/supervisor.h"
#include "runner/report/row.h"

namespace ddprun {

/// A row whose ranks have not started yet. `launcher`: who starts them.
Row unrun_row(const PlannedFile& file, const PlannedTurn& turn, const std::string& launcher);

/// The row of a file whose YAML was refused.
Row refused_row(const PlannedFile& file);

/// Turns an outcome into the row's status, results and reason.
void finish_row(Row& row, const Outcome& outcome);

/// Why the last checkpoint of a row that was measured was not saved: what it trained is nowhere.
/// Empty: it was, or none was asked for.
std::string unsaved(const Row& row);

/// "proof failed: integer_gradients: ..."
std::string outcome_text(const Row& row);

/// For the line that ends a row: "31.2 ms/step, loss 2.500", or why it failed.
std::string end_text(const Row& row);

}  // namespace ddprun
