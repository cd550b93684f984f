// Plugins whose exceptions say which plugin threw them, and in which call.
#pragma once

#include <memory>
#include <string>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Each passes every call on to `inner`. What that throws becomes an Error that names the plugin
/// and the call, unless it is ddprun's own error, or says that memory ran out.
std::shared_ptr<Strategy> named(std::shared_ptr<Strategy> inner, const std::string& name);
std::shared_ptr<Precision> named(std::shared_ptr<Precision> inner, const std::string& name);
std::shared_ptr<Attention> named(std::shared_ptr<Attention> inner, const std::string& name);

}  // namespace ddprun
