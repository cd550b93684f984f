// The file that --out names.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "ddprun/base/durable_file.h"

namespace ddprun {

/// As the file's name: the program's stdout.
inline constexpr const char* kStdout = "-";

/// Throws ConfigError if it is one of the files that the command reads.
void refuse_as_out(const std::string& out, const std::vector<std::string>& read);

/// By write_durably(); a device, a pipe or a link stays, and is written into. Throws Error.
void write_out(const std::string& out, const std::function<void(const TextSink&)>& tell);

/// Where the command says what it wrote: stdout, or stderr beside a file that is stdout.
std::ostream& words_beside(const std::string& out);

}  // namespace ddprun
