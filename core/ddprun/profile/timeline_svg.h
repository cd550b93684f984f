// A picture of the last step of several rows, for any browser: where the collectives lie, and what
// of them nothing hides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/profile/step_timeline.h"

namespace ddprun {

/// How many rows are drawn that nobody chose, and how many ranks of a row.
inline constexpr std::size_t kDrawnRows = 8, kDrawnRanks = 4;

/// The rows below each other over one axis of time. Each rank has its phases and its units; marks
/// where gradients were ready; and its collectives, in as many lanes as ran at a time. Red is the
/// exposed communication. `chosen`: numbers of rows, 1 is the first; empty: those that communicate,
/// kDrawnRows at most. Empty if nothing is to be drawn.
std::string timeline_svg(const std::vector<RowTimeline>& rows,
                         const std::vector<std::int64_t>& chosen = {});

}  // namespace ddprun
