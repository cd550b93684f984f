// Memory for collectives: files in memory that several processes map, and ordinary memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Files have a size of whole_pages().

/// A range of addresses that unmaps itself.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Only for a mapped file. Unlinks its pages from this process, so they no longer count as its
  /// resident memory. The file keeps them, and the next access finds them again.
  void forget() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Zeroed memory of this process alone, `bytes` rounded up to whole pages: in huge pages where the
/// system grants them, but for what is left at the end. Throws std::runtime_error.
Mapping map_private(std::size_t bytes);

/// A file in memory without a name in any folder (memfd). It needs no /dev/shm. It is gone with its
/// last descriptor and mapping, however its users end. The destructor closes the descriptor, not
/// the mappings.
class MemoryFile {
 public:
  /// The file is zeroed and every page is allocated, so no access can fail later. `bytes_of_all` is
  /// what all ranks of this host ask for at the same moment. Throws std::runtime_error with the
  /// reason, also if the machine has less than that to give.
  static MemoryFile create(std::size_t bytes, std::size_t bytes_of_all);
  /// The file that process `pid` has open as `descriptor`. That process must be of the same user
  /// and in the same PID namespace. Throws std::runtime_error.
  static MemoryFile open(pid_t pid, int descriptor);

  int descriptor() const { return descriptor_.get(); }
  /// `at_once` maps every page now. Without it a page is mapped at its first use, and only used
  /// pages count as resident. Throws std::runtime_error, also if the file is shorter than `bytes`.
  Mapping map(std::size_t bytes, bool at_once = true) const;

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  Descriptor descriptor_;
};

/// `bytes` rounded up to whole pages, or to whole huge pages if it is at least one of those.
std::size_t whole_pages(std::size_t bytes);

/// The call and the text of the current errno: "mmap: Cannot allocate memory".
std::string system_error(const std::string& call);

}  // namespace ddprun
