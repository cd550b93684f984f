// The file that --out names.
#pragma once

#include <functional>
#include <string>

#include "ddprun/base/durable_file.h"

namespace ddprun {

/// Writes it by write_durably(). Throws Error.
void write_out(const std::string& out, const std::function<void(const TextSink&)>& tell);

}  // namespace ddprun
