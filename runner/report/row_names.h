// How rows are called when they stand together.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

/// The sweep's label (its value alone when only one key is swept), the file's name, or both.
struct RowNames {
  /// Of the column.
  std::string title;
  std::vector<std::string> names;
};
RowNames row_names(const std::vector<Row>& rows);

}  // namespace ddprun
