// What ranks say to one another between steps.
#pragma once

#include <string>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// Every rank's words, of which the first that are not empty are returned, with their rank. All
/// ranks call it.
std::string first_of_all(ProcessGroup& group, const std::string& own);

}  // namespace ddprun
