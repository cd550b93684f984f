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

inline std::int64_t elements_of(const std::vector<Range>& ranges) {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.size();
  return sum;
}

inline std::int64_t bytes_of(std::int64_t elements, c10::ScalarType dtype) {
  return elements * static_cast<std::int64_t>(c10::elementSize(dtype));
}

}  // namespace ddprun
