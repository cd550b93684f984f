// The last steps of all rows as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.
#pragma once

#include <functional>
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

}  // namespace ddprun
