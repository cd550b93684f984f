// All samples of all rows as one table for other programs.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

/// One line a row, rank and step; warm-up steps are marked. A column for each measured quantity of
/// the rows' kinds, empty where a row or a sample has no such value.
std::string steps_csv(const std::vector<Row>& rows);

}  // namespace ddprun
