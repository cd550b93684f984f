// A picture of a recorded step's memory, for any browser.
#pragma once

#include <string>

#include "ddprun/measure/memory_account.h"

namespace ddprun {

/// What tensors hold over the step, in MB over ms: the categories stacked, the phases as bands, the
/// peak labelled. Of many events in a thousandth of the step the highest is drawn.
std::string memory_svg(const MemoryAccount& account);

/// Of a category's area: "#4e79a7".
const char* colour_of(MemoryCategory category);

}  // namespace ddprun
