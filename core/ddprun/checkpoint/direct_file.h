// Writes places of a file past the page cache, several ranks at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "ddprun/base/descriptor.h"
#include "ddprun/base/hash.h"

namespace ddprun {

/// A file that is as long as it will be. Writers through the page cache wait for one another (a
/// lock of the file), and each byte is copied once more. So whole blocks go to the disk directly
/// (O_DIRECT) where the file system has that; what is left at the ends, which another rank's bytes
/// may share a block with, goes through the cache.
class DirectFile {
 public:
  /// What a file should be aligned to, so that most of it is whole blocks.
  static constexpr std::int64_t kBlock = 4096;

  /// Opens it for writing. error() tells whether it could.
  explicit DirectFile(const std::filesystem::path& path);

  /// 0, or the error number of what failed first.
  int error() const { return error_; }
  /// Writes `bytes` at `offset`, and adds them to `hash`, so that memory is read once.
  void write(std::int64_t offset, const char* data, std::int64_t bytes, Hash64& hash);
  /// Waits until all is on the disk.
  void sync();

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  void write_at(const Descriptor& file, std::int64_t offset, const char* data, std::int64_t bytes);
  /// `in_blocks`: past the cache, as long as the file system takes it.
  void write_parts(std::int64_t offset, const char* data, std::int64_t bytes, Hash64& hash,
                   bool in_blocks);
  /// False: it wants other blocks than these, and nothing was written.
  bool write_block(std::int64_t offset, const char* data, std::int64_t bytes);

  Descriptor cached_, direct_;
  std::unique_ptr<char, Free> buffer_;  ///< aligned; none: the file system has no O_DIRECT
  int error_ = 0;
};

}  // namespace ddprun
