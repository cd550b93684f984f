// Parts of flat buffers: what two ranges share, and a part of a tensor that holds a range.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// What both have; its size is 0 or less if they share nothing.
inline Range shared(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// A view of the elements `part` of `flat`, (range.size(),), which holds those of `range`.
inline at::Tensor part_of(const at::Tensor& flat, Range range, Range part) {
  return flat.narrow(0, part.begin - range.begin, part.size());
}

inline std::int64_t bytes_of(std::int64_t elements, c10::ScalarType dtype) {
  return elements * static_cast<std::int64_t>(c10::elementSize(dtype));
}

/// In which dtype the model reads a parameter: its unit's, or float32.
inline c10::ScalarType read_dtype(const ParameterLayout& layout, int index) {
  const Unit& unit = layout.units()[layout.unit_of(index)];
  const bool norm = std::find(unit.norms.begin(), unit.norms.end(), index) != unit.norms.end();
  return norm ? c10::kFloat : unit.dtype;
}

/// Unit::dtype of `range`, which is made of whole units of one dtype.
c10::ScalarType gather_dtype(const ParameterLayout& layout, Range range);
/// Unit::norms of all units.
std::vector<int> norms_of(const ParameterLayout& layout);
/// Elements of all of them, without padding.
std::int64_t norm_elements(const ParameterLayout& layout);

}  // namespace ddprun
