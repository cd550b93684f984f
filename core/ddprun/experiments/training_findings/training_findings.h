// What rows of training say: sentences made from their numbers, one file a question.
//
// Family: training_findings.cpp speed.cpp limits.cpp trends.cpp conduct.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/experiments/training/training.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/row_runs.h"

namespace ddprun::training_findings {

using Runs = std::vector<const RunStatistics*>;
using Rows = std::vector<RowRuns>;
/// One list for each sort of sentence. A finding without a text is none.
using Sorts = std::vector<std::vector<Finding>>;

/// The fastest row, what a precision gains, what overlap hides, how rows scale, what repeats.
Sorts of_speed(const Rows& rows, const Runs& runs);
/// What chance alone does, of rows that ran twice in a round, beside `tests` tests.
Sorts of_chance(const Rows& rows, std::size_t tests);
/// What limits each row: the link, gradients that come late, a slow rank.
Sorts of_limits(const Rows& rows);
/// Of rows that expose much communication: what would help, by the numbers of this table.
Sorts of_advice(const Rows& rows);
/// What changes with a number that is swept.
Sorts of_trends(const Rows& rows);
/// What ranks did beside what is measured, and why a precision that should be faster is not.
Sorts of_conduct(const Rows& rows);

const Run& run_of(const RowRuns& row);
const std::string& name_of(const RowRuns& row);
bool is_control(const RowRuns& row);
/// Whether the ranks' gradients become something else than their mean.
bool does_other_work(const RowRuns& row);
/// Whether communication ran while gradients were still computed.
bool overlaps(const RowRuns& row);
/// Milliseconds.
double step_of(const RowRuns& row);
double exposed_of(const RowRuns& row);
/// Rows that differ in their strategy alone, together.
std::vector<Rows> by_work(const Rows& rows);
/// `value`: its numbers. Kind, name and text are added, and the experiment is that of `row`.
Finding finding(const char* what, const std::string& text, const RowRuns& row,
                nlohmann::json value);

}  // namespace ddprun::training_findings
