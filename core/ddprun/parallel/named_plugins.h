// Plugins whose failures name them: what a plugin throws says neither which one nor where.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// The plugin, with its name and the call in the message of each exception that it lets out.
/// ConfigError, CommError and the end of memory pass as they are: they are not the plugin's fault,
/// or say what is.
std::shared_ptr<Strategy> with_named_failures(std::shared_ptr<Strategy> strategy,
                                              const std::string& name);
std::shared_ptr<Precision> with_named_failures(std::shared_ptr<Precision> precision,
                                               const std::string& name);
std::shared_ptr<Attention> with_named_failures(std::shared_ptr<Attention> attention,
                                               const std::string& name);

/// Runs `backward`. What the backward of such an attention throws gets its name, too.
void backward_with_names(Attention& attention, const std::function<void()>& backward);

}  // namespace ddprun
