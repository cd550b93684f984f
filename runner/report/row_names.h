// The names of rows in a common table.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

/// A name is the sweep's label (its value alone if only one key is swept), the file's name, or
/// both.
struct RowNames {
  std::string title;
  std::vector<std::string> names;
};
/// "bucketed(bucket_mb=5)" with a space before the bracket: as a cell of its own it reads better.
std::string as_cell(std::string value);

RowNames row_names(const std::vector<Row>& rows);

/// The values without their keys: "fp32, 128" below the title "precision, context_length", and
/// behind files' names.
RowNames values_alone(const RowNames& names);

}  // namespace ddprun
