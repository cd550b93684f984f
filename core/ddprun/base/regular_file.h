// Reads files that have an end, and that memory can hold.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Tells a file from what stood under its name before, and from itself before it was written to.
using FileIdentity = std::array<std::int64_t, 5>;
FileIdentity identity_of(const struct stat& status);

/// A regular file, open for reading. A named pipe, a socket or a device is refused: reading it
/// might wait, or go on, without end.
class RegularFile {
 public:
  /// Throws std::runtime_error with the reason alone: the words of the system, or what the path
  /// leads to instead of a file.
  explicit RegularFile(const std::filesystem::path& path);

  /// Bytes, when it was opened.
  std::int64_t size() const { return opened_.st_size; }
  /// Of the file when it was opened. None if it had been written to in the last seconds: it could
  /// be written to again, and have the same time.
  std::optional<FileIdentity> identity() const;

  /// Copies bytes from `offset` on, and returns how many there were: less than `bytes` only where
  /// the file ends. Throws std::runtime_error with the reason. Thread-safe.
  std::int64_t read(std::int64_t offset, void* out, std::int64_t bytes) const;

  /// Calls visit(offset, piece) for all bytes from `begin` on, in pieces of `piece_bytes`, the last
  /// one shorter. Throws std::runtime_error as read(), and if the file ends early.
  using VisitPiece = std::function<void(std::int64_t offset, std::span<const char> piece)>;
  void visit_pieces(std::int64_t begin, std::int64_t piece_bytes, const VisitPiece& visit) const;

  /// What happened to the file since it was opened; empty: nothing. A file of the same name that
  /// took its place does not count, as this one is still read.
  std::string change() const;

 private:
  Descriptor descriptor_;
  struct stat opened_ = {};
};

/// All bytes of a file. Throws std::runtime_error with the reason, also if memory cannot hold them.
std::string read_whole(const std::filesystem::path& path);

}  // namespace ddprun
