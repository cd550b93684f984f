// How much of the flat buffers a rank holds, and what it updates.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// How much of a flat buffer a rank holds.
enum class Held : std::uint8_t {
  whole,
  by_unit,  ///< what it owns, and room for units while they are used (UnitPlaces)
  nothing,
};

struct BufferHolding {
  Held parameters = Held::whole;
  /// `nothing`: nobody will call backward.
  Held gradients = Held::whole;
  /// Of parameters held by unit: every unit has a place of its own, where it may stay.
  bool place_for_each_unit = false;
  /// Of parameters held by unit: what is read in float32 beside a copy (beside_copy()) has a place
  /// of its own on each rank, where it stays.
  bool replicate_norms = false;
  /// Of parameters held whole: what the model reads of a unit may be old until before_unit().
  bool arrive_by_unit = false;
  /// Into how many slices the units are cut. Ranks n k to n k + n - 1 of n have one of each
  /// together, and every n-th rank has the same. 0: as many as there are ranks.
  int shards = 0;
  /// What this rank updates: disjoint, by begin. Empty: everything, as on all other ranks. A rank
  /// that updates nothing, while others own parts, names one empty range.
  std::vector<Range> owned = {};
};

}  // namespace ddprun
