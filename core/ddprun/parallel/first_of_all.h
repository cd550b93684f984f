// What one rank finds, or each of them, known to all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// The first text of the ranks that is not empty, after its rank; empty: all are. All ranks call
/// it.
std::string first_of_all(ProcessGroup& group, const std::string& own);

/// `text` of the first line of a rank that is not that of rank 0's, with what both have. Nothing:
/// the lines of all ranks are the same. Where one has fewer, `none` stands for the next. All ranks
/// call it; all get the same.
std::optional<ErrorText> first_other_line(ProcessGroup& group, std::vector<std::string> lines,
                                          const std::string& none, ErrorText text);

/// The number of each rank, in rank order, to the last bit. All ranks call it.
std::vector<double> of_all_ranks(ProcessGroup& group, double own);

}  // namespace ddprun
