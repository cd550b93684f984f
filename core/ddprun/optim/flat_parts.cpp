// What parts of a layout have in common.
#include "ddprun/optim/flat_parts.h"

#include <c10/util/Exception.h>

#include <optional>

namespace ddprun {

c10::ScalarType gather_dtype(const ParameterLayout& layout, Range range) {
  std::optional<c10::ScalarType> dtype;
  for (const Unit& unit : layout.units()) {
    if (!range.contains(unit.range)) continue;
    TORCH_CHECK(!dtype || *dtype == unit.dtype, "units of different dtypes do not travel together");
    dtype = unit.dtype;
  }
  TORCH_CHECK(dtype, "only whole units are gathered");
  return *dtype;
}

std::vector<int> norms_of(const ParameterLayout& layout) {
  std::vector<int> indices;
  for (const Unit& unit : layout.units()) {
    indices.insert(indices.end(), unit.norms.begin(), unit.norms.end());
  }
  return indices;
}

std::int64_t norm_elements(const ParameterLayout& layout) {
  std::int64_t sum = 0;
  for (const int index : norms_of(layout)) sum += layout.range(index).size();
  return sum;
}

}  // namespace ddprun
