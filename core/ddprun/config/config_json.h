// A YAML tree as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ddprun/config/config_node.h"

namespace ddprun {

/// Plain scalars become null, booleans and numbers, as plain_scalar.h reads them. What JSON cannot
/// say (.inf, .nan) stays text.
nlohmann::json to_json(const ConfigNode& node);

}  // namespace ddprun
