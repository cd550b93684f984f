// What the recorded step of each row called, for the report.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// The ten operators of each row that took longest. No line if no row recorded them.
TextTable operator_table(const TableLines& lines);

/// Each kind of operator, with its share of forward's time and FLOPs, and of the step's.
TextTable operator_sum_table(const TableLines& lines);

/// A sentence a row: what is called most in forward and in the step, softmax beside products.
std::vector<std::string> operator_words(const TableLines& lines);

}  // namespace ddprun
