// The file that --out names, and folders that commands make.
#pragma once

#include <filesystem>
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

/// Where a folder is to be made: absolute, and without a slash at its end, so that it has a name to
/// hide beside until it is whole.
std::filesystem::path new_folder(const std::filesystem::path& path);

/// Where the command says what it wrote: stdout, or stderr beside a file that is stdout.
std::ostream& words_beside(const std::string& out);

}  // namespace ddprun
