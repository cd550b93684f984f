// The table of a group's allocations.
#include "ddprun/comm/backends/shm_allocations.h"

#include <stdexcept>

namespace ddprun {

int ShmAllocations::add(std::vector<Mapping> parts) {
  const std::lock_guard lock(mutex_);
  for (int number = 0; number < kMost; ++number) {
    if (!entries_[number].parts.empty()) continue;
    entries_[number] = {std::move(parts), false};
    return number;
  }
  throw std::runtime_error("the group holds " + std::to_string(kMost) +
                           " allocations, which are the most");
}

void ShmAllocations::release(int number) {
  const std::lock_guard lock(mutex_);
  entries_[number].released = true;
}

std::uint64_t ShmAllocations::released() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t numbers = 0;
  for (int number = 0; number < kMost; ++number) {
    if (entries_[number].released) numbers |= std::uint64_t{1} << number;
  }
  return numbers;
}

void ShmAllocations::drop(std::uint64_t numbers) {
  const std::lock_guard lock(mutex_);
  for (int number = 0; number < kMost; ++number) {
    if ((numbers >> number & 1U) != 0) entries_[number] = {};
  }
}

std::byte* ShmAllocations::part(int number, int rank) const {
  const std::lock_guard lock(mutex_);
  return entries_[number].parts[rank].data();
}

void ShmAllocations::forget(int number, int rank) const {
  const std::lock_guard lock(mutex_);
  entries_[number].parts[rank].forget();
}

std::optional<std::pair<int, std::int64_t>> ShmAllocations::find(int rank, const std::byte* data,
                                                                 std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (int number = 0; number < kMost; ++number) {
    const Entry& entry = entries_[number];
    if (entry.parts.empty()) continue;
    const Mapping& own = entry.parts[rank];
    if (data < own.data() || data + bytes > own.data() + own.bytes()) continue;
    return {{number, data - own.data()}};
  }
  return std::nullopt;
}

}  // namespace ddprun
