// Writes the figures of all rows as one table, for other programs.
#pragma once

#include <string>

#include "runner/report/table_lines.h"

namespace ddprun {

/// One line for each run that was measured and each quantity of its kind that has a figure: the
/// figure, and, of a quantity that has a value in each step, mean, standard deviation (n - 1),
/// median, 95th percentile and number of the measured ones. A row of several runs has one line
/// more, run "all": the row's figure, and these statistics of the runs' figures. So has a quantity
/// that compares rows. Cells that have no meaning are empty.
std::string summary_csv(const TableLines& table);

}  // namespace ddprun
