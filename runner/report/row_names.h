// The names of rows in a common table.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

/// A name is the sweep's label (its value alone if only one key is swept), the file's name, or
/// both.
struct RowNames {
  /// The title of the column of names.
  std::string title;
  std::vector<std::string> names;
};
RowNames row_names(const std::vector<Row>& rows);

}  // namespace ddprun
