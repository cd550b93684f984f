// Shared memory that a group has given out, and where each rank has mapped each rank's part of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/base/mapped_memory.h"

namespace ddprun {

/// An allocation is as much memory on every rank, mapped by all; it has the same number on all. It
/// can go when all ranks have released it, which they find out at the next allocation: until then a
/// rank may still call collectives on its part. Any thread.
class ShmAllocations {
 public:
  static constexpr int kMost = 64;  ///< at a time: a bit each

  /// `parts` in rank order. Returns its number, the lowest that is free: the same on all ranks if
  /// all call add and drop alike. Throws std::runtime_error if none is free.
  int add(std::vector<Mapping> parts);
  /// This rank's tensor is gone.
  void release(int number);
  /// The numbers released on this rank, as bits.
  std::uint64_t released() const;
  /// Unmaps those of these numbers.
  void drop(std::uint64_t numbers);

  std::byte* part(int number, int rank) const;
  /// What was touched of that part counts as resident here no more, until it is touched again.
  void forget(int number, int rank) const;
  /// Number and offset of the allocation, not released, in whose part of `rank` these bytes lie.
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
