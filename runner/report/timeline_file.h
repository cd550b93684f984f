// The last step of each rank as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.
#pragma once

#include <string>

#include "runner/report/row.h"

namespace ddprun {

/// Chrome's trace event format. A process for each rank, whose time begins with its step: ranks
/// start a step together. In it the training thread's phases and waits, and below them the
/// collectives from start to end, as many lanes as ran at a time. All from the marks that the
/// samples are made of, so on a GPU these are the device's times.
std::string timeline_json(const Row& row);

}  // namespace ddprun
