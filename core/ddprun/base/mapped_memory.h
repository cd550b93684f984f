// Memory for collectives: files in memory that several processes map, and ordinary memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Sizes of what is created and mapped are whole_pages().

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

  /// Of a file: unlinks its pages from this process, whose resident memory they count in. The file
  /// keeps them, and the next access finds them again.
  void forget() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Zeroed memory of this process alone, in huge pages where the system grants them. Throws
/// std::runtime_error.
Mapping map_private(std::size_t bytes);

/// A file in memory without a name in any folder (memfd): it needs no /dev/shm and is gone with its
/// last descriptor and mapping, however its users end. Closes its descriptor, not its mappings.
class MemoryFile {
 public:
  /// Zeroed, and every page is there: no access can fail later. `bytes_of_all`: what the ranks of
  /// this host ask for at the same moment; refused if the machine has less to give. Throws
  /// std::runtime_error with the reason.
  static MemoryFile create(std::size_t bytes, std::size_t bytes_of_all);
  /// The file that process `pid` has open as `descriptor`: of the same user, in the same PID
  /// namespace. Throws std::runtime_error.
  static MemoryFile open(pid_t pid, int descriptor);

  int descriptor() const { return descriptor_.get(); }
  /// `at_once`: every page, now; else each at its first use, and only what is used counts as
  /// resident. Throws std::runtime_error; also if the file is shorter than `bytes`.
  Mapping map(std::size_t bytes, bool at_once = true) const;

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  Descriptor descriptor_;
};

/// `bytes`, rounded up to pages; to huge pages from one of those on.
std::size_t whole_pages(std::size_t bytes);

/// "mmap: Cannot allocate memory", for the errno of now.
std::string system_error(const std::string& call);

}  // namespace ddprun
