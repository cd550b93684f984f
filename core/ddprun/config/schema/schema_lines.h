// A schema as a file that people can read, and compare line by line.
#pragma once

#include <string>

#include "ddprun/config/schema/options_schema.h"

namespace ddprun {

/// Objects and lists stand on one line each if they fit, else with a line or more for each element.
std::string lines_of(const Schema& schema);

}  // namespace ddprun
