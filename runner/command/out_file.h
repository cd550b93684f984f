// The file that --out names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddprun/base/durable_file.h"

namespace ddprun {

/// Throws ConfigError if it is one of the files that the command reads.
void refuse_as_out(const std::string& out, const std::vector<std::string>& read);

/// By write_durably(); a device, a pipe or a link stays, and is written into. Throws Error.
void write_out(const std::string& out, const std::function<void(const TextSink&)>& tell);

}  // namespace ddprun
