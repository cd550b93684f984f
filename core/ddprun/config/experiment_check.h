// Checks what one experiment must satisfy beyond the limits of each single option.
#pragma once

#include <cstdint>
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
/// The same, if it is `wrong`.
void refuse_if(const Experiment& experiment, bool wrong, const std::string& path, ErrorText text);

/// Bytes that each of this machine's ranks would take.
struct MemoryNeed {
  std::int64_t ranks = 1;
  double each = 0;
  std::string of = {};  ///< "at the peak of backward", "of buffers"
};
/// Throws ConfigError of the value at a dotted path if they would take more than `available` bytes
/// together; `text` has its `what` and its `hint`.
void refuse_above(const Experiment& experiment, const std::string& path, const MemoryNeed& need,
                  double available, ErrorText text);

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
