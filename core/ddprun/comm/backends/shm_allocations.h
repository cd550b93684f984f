// The shared memory that a group has allocated, and where this rank has mapped each rank's part of
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/memory/mapped_memory.h"

namespace ddprun {

/// An allocation is the same amount of memory on every rank, mapped by all, with the same number on
/// all. It can be unmapped once all ranks have released it; until then a rank may still call
/// collectives on its part. Ranks learn of each other's releases at the next allocation. Any thread
/// may call this.
class ShmAllocations {
 public:
  static constexpr int kMost = 64;  ///< at a time: a bit each

  /// `parts` are in rank order. Returns the allocation's number, the lowest that is free. It is the
  /// same on all ranks if all make the same calls of add and drop. Throws std::runtime_error if
  /// none is free.
  int add(std::vector<Mapping> parts);
  /// Notes that this rank's tensor is gone.
  void release(int number);
  /// The numbers released on this rank, as bits.
  std::uint64_t released() const;
  /// Unmaps the allocations of these numbers.
  void drop(std::uint64_t numbers);

  std::byte* part(int number, int rank) const;
  /// Pages of that part no longer count as this process's resident memory, until they are touched
  /// again.
  void forget(int number, int rank) const;
  /// The number of the allocation that holds these bytes in its part of `rank`, and their offset.
  std::optional<std::pair<int, std::int64_t>> find(int rank, const std::byte* data,
                                                   std::int64_t bytes) const;

 private:
  struct Entry {
    std::vector<Mapping> parts;  // empty: free
    bool released = false;
  };
  mutable std::mutex mutex_;
  std::array<Entry, kMost> entries_;
};

}  // namespace ddprun
