// Writes samples and figures of all rows as tables, for other programs.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// There is one line for each row, rank and step; warm-up steps are marked. There is one column for
/// each measured quantity of the rows' kinds; a cell is empty if a row or a sample has no such
/// value.
void write_steps_csv(const std::vector<Row>& rows, const TextSink& sink);

/// One line for each measured run and each collective of its last step that all ranks have: when
/// rank 0 asked for it, began it and had it, milliseconds since the step's begin; what ranks waited
/// for it, and what of that is communication; its time beside the link's, and what limited it.
std::string collectives_csv(const std::vector<Row>& rows);

/// One line for each run that was measured and each quantity of its kind that has a figure: the
/// figure, and, of a quantity that has a value in each step, mean, standard deviation (n - 1),
/// median, 95th percentile and number of the measured ones. A row of several runs has one line
/// more, run "all": the row's figure, and these statistics of the runs' figures. So has a quantity
/// that compares rows. Cells that have no meaning are empty.
std::string summary_csv(const TableLines& table);

std::string csv_of(const TextTable& table);

/// A figure with every digit; empty: it is not finite.
std::string csv_number(double value);

}  // namespace ddprun
