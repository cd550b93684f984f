// The run of a parameter's elements at which a check of a step looks.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// A run of `part`: a 32nd of it, so that the check does not show in the memory of a step, but at
/// least 16 and at most 2,048 elements. Equal draws give equal runs.
Range drawn_run(Range part, std::uint64_t draw);
/// One of each parameter.
std::vector<Range> drawn_runs(const ParameterLayout& layout, std::uint64_t draw);

}  // namespace ddprun
