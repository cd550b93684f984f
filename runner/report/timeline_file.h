// The last step of each rank as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.
#pragma once

#include <string>

#include "runner/report/row.h"

namespace ddprun {

/// Returns Chrome's trace event format. Each rank is a process, whose time begins with its step,
/// because ranks start a step together. It shows the training thread's phases and waits, and below
/// them the collectives from start to end, in as many lanes as ran at a time. All times come from
/// the marks that the samples are made of, so on a GPU they are the device's.
std::string timeline_json(const Row& row);

}  // namespace ddprun
