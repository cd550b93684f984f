// Writes all samples of all rows as one table, for other programs.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

/// There is one line for each row, rank and step; warm-up steps are marked. There is one column for
/// each measured quantity of the rows' kinds; a cell is empty if a row or a sample has no such
/// value.
std::string steps_csv(const std::vector<Row>& rows);

}  // namespace ddprun
