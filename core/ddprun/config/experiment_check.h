// Checks what one experiment must satisfy beyond the limits of each single option.
#pragma once

#include <string>

#include "ddprun/base/error.h"
#include "ddprun/config/experiment.h"

namespace ddprun {

/// Where the value at a dotted path, or the nearest mapping around it, was written.
std::string origin_of(const ConfigNode& document, const std::string& path);

/// "world.backend gloo"
std::string said(const char* key, const std::string& value);

/// Throws ConfigError of the value at a dotted path; `text` lacks its `where`.
[[noreturn]] void refuse(const Experiment& experiment, const std::string& path, ErrorText text);

/// `text` of an experiment that the sweep made at that point; an empty label: there is no sweep.
ErrorText at_point(ErrorText text, const std::string& label);

/// Throws ConfigError if an option was `changed` that `neighbour` makes meaningless.
void refuse_unused(const Experiment& experiment, bool changed, const std::string& path,
                   const std::string& neighbour);

/// Throws ConfigError if there are several ranks. `text` has its `what` and its `hint`.
void refuse_several_ranks(const Experiment& experiment, ErrorText text);

/// Throws ConfigError if settings that every kind has contradict each other, or if one has no
/// effect beside the others. RunnableKind::check() has the rest.
void check_experiment(const Experiment& experiment);

}  // namespace ddprun
