// The last steps of rows: as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show, and
// as a picture for any browser of where the collectives lie, and what of them nothing hides.
//
// Family: timeline_json.cpp timeline_svg.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/profile/step_timeline.h"

namespace ddprun {

/// Writes Chrome's trace event format, an event a line. Each rank of a row is a process, whose time
/// begins with its first step, because ranks start a step together. It shows the training thread's
/// phases, units and waits, and when gradients were ready; below it the collectives from start to
/// end, in as many lanes as ran at a time. All times come from the marks that the samples are made
/// of, so on a GPU they are the device's.
void write_timeline_json(const std::vector<RowTimeline>& rows,
                         const std::function<void(std::string_view)>& sink);

/// How many rows are drawn that nobody chose, and how many ranks of a row.
inline constexpr std::size_t kDrawnRows = 8, kDrawnRanks = 4;

/// The rows below each other over one axis of time. Each rank has its phases and its units; marks
/// where gradients were ready; and its collectives, in as many lanes as ran at a time. Red is the
/// exposed communication. `chosen`: numbers of rows, 1 is the first; empty: those that communicate,
/// kDrawnRows at most. Empty if nothing is to be drawn.
std::string timeline_svg(const std::vector<RowTimeline>& rows,
                         const std::vector<std::int64_t>& chosen = {});

}  // namespace ddprun
