// The run of a parameter's elements at which a check of a step looks, and how many elements of a
// result are not what they should be.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// What a run's checks draw from: `given`, or a number of the system's, so that plugins cannot
/// foresee it. Rank 0's, on all ranks, which all call it.
std::uint64_t agreed_seed(std::optional<std::int64_t> given, ProcessGroup& group);

/// A run of `part`: a 32nd of it, so that the check does not show in the memory of a step, but at
/// least 16 and at most 2,048 elements. Equal draws give equal runs.
Range drawn_run(Range part, std::uint64_t draw);
/// One of each parameter.
std::vector<Range> drawn_runs(const ParameterLayout& layout, std::uint64_t draw);

/// True where two tensors of one shape are unequal. Each NaN equals another.
at::Tensor unequal(const at::Tensor& got, const at::Tensor& expected);
/// How many of these there are. `tolerance`: relative to the largest expected element; 0: bit by
/// bit, but for the sign of zero.
std::int64_t count_unequal(const at::Tensor& got, const at::Tensor& expected, double tolerance = 0);

}  // namespace ddprun
