// Counts what tensors of device meta would hold: the memory of a step that computes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddprun/memory/memory_category.h"

namespace ddprun {

/// While it lives, every tensor of device meta that any thread makes is counted, and has an address
/// of its own that nobody may read, as code compares addresses to tell tensors apart. One at a
/// time. PyTorch's allocator of that device is replaced for good, so this belongs into a process of
/// its own.
class DryMemory {
 public:
  DryMemory();
  ~DryMemory();
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;

  struct Block {
    std::int64_t bytes = 0;
    std::optional<MemoryCategory> category = {};  ///< of the scope it was made in
    std::size_t made = 0;                         ///< its place in changes()
    std::optional<std::size_t> gone = {};         ///< likewise; empty: it is there
  };
  /// A block that came, or went.
  struct Change {
    std::size_t block = 0;
    bool came = true;
  };

  const std::vector<Block>& blocks() const { return blocks_; }
  /// In the order of time.
  const std::vector<Change>& changes() const { return changes_; }

 private:
  class Allocator;
  friend class Allocator;

  std::vector<Block> blocks_;
  std::vector<Change> changes_;
};

}  // namespace ddprun
