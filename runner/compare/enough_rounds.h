// Whether the runs of a table tell its rows apart well enough.
#pragma once

#include <optional>

#include "runner/report/table_lines.h"

namespace ddprun {

/// Half the width of the 95 % interval of a row's time beside that of its base, as a share of it;
/// the widest of the rows that have one. Nothing: no two rows are compared, or one of them has
/// fewer than three rounds.
std::optional<double> widest_interval(const TableLines& table);

}  // namespace ddprun
