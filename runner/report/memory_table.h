// The memory of each phase, for the report.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line for each row and phase. The figures are those of the rank with the highest peak in that
/// phase; beside the peak stands what was predicted. A row whose memory ran out has that alone.
TextTable memory_table(const TableLines& lines);

/// A sentence for each phase whose peak, and each category of the recorded peak's tensors that,
/// differs from the prediction by more than 5 % and 1 MB; and for each row that could not be
/// predicted, with the reason.
std::vector<std::string> memory_remarks(const TableLines& lines);

/// A sentence for each row whose memory ran out: which row of the same file and the same tokens a
/// step ran, the fastest one; if none did, which takes the least by the account. None where no row
/// takes less.
std::vector<std::string> memory_advice(const TableLines& lines);

/// What rank 0's memory was at the peak of the step that profile.memory recorded: a line for each
/// row and category, the process's as a whole, and of its tensors also what was predicted of the
/// rank that holds most. No line if no row recorded it.
TextTable memory_category_table(const TableLines& lines);

/// A sentence for each such row: what a block saves for backward, by operation.
std::vector<std::string> saved_words(const TableLines& lines);

}  // namespace ddprun
