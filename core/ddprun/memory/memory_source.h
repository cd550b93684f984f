// Who counts blocks of memory, and who hears of each.
#pragma once

#include <cstdint>

namespace ddprun {

/// Hears of each block that is counted, one call at a time, on whatever thread. It must not
/// allocate or release tensors.
class MemoryListener {
 public:
  virtual ~MemoryListener();
  /// `block`: its address. No other block has it until this one is released; if one comes all the
  /// same, nobody told that this one was. `lent`: it lies within another, which counts.
  virtual void on_allocated(const void* block, std::int64_t bytes, bool lent) = 0;
  virtual void on_released(const void* block) = 0;
};

class MemorySource {
 public:
  virtual ~MemorySource();
  /// From now on `listener` hears of each block; null: nobody does.
  virtual void tell(MemoryListener* listener) = 0;
};

}  // namespace ddprun
