// What live outputs are written with: files that are read meanwhile, by lines or as a whole, and
// the time of day.
#pragma once

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Grows at its end. What fails throws std::runtime_error: the path and the system's reason.
class LiveFile {
 public:
  /// Creates the file and its folder where they are not there.
  explicit LiveFile(const std::filesystem::path& path);
  /// In one write: a reader sees all of it, or nothing. Where it fails nothing of it stays.
  void append(const std::string& bytes);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::int64_t size_ = 0;
};

/// Puts a file of that text in the place of `path`, whose folder is there; it does not wait for the
/// disk. Throws as above.
void replace_file(const std::filesystem::path& path, const std::string& text);
/// Throws what replace_file() would throw, and changes nothing.
void try_to_replace(const std::filesystem::path& path);

/// Milliseconds since 1970, UTC.
inline std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// "2026-01-31T12:00:00.123Z"
inline std::string iso_time(std::int64_t ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

}  // namespace ddprun
