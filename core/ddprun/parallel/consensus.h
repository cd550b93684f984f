// How far ranks that train apart are from each other.
#pragma once

#include <optional>

#include "ddprun/parallel/data_parallel.h"

namespace ddprun {

/// Whether each rank has parameters of its own between steps.
bool ranks_differ(const DataParallel& data_parallel);

/// The consensus distance (Kong et al., ICML 2021, section 3), relative: the root mean square over
/// the ranks of |x_r - mean x|, divided by |mean x|, of all that is trained. Nothing, where ranks
/// do not differ. All ranks call it, between steps; all get the same.
std::optional<double> consensus_distance(const DataParallel& data_parallel);

}  // namespace ddprun
