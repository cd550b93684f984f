// Files that are read while they are written: by lines, or as a whole.
#pragma once

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

}  // namespace ddprun
