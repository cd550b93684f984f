// The memory of a recorded step by category: over the step, at its moments and at its peak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/measure/memory_trace.h"
#include "ddprun/measure/phase.h"
#include "ddprun/measure/resident_memory.h"
#include "ddprun/memory/memory_category.h"

namespace ddprun {

/// What a block of memory is for, by its life: of a step recorded, or predicted.
struct BlockLife {
  std::optional<MemoryCategory> scope = {};  ///< what its maker said that it is for
  std::optional<Phase> phase = {};           ///< of the step, in which it was made; empty: before
  bool again = false;  ///< it was made where backward computes a part of the forward again
  bool left = false;   ///< it outlived that phase, or that part
  bool stays = false;  ///< it outlived the step
};

MemoryCategory category_of(const BlockLife& life);

/// What tensors hold from an event on.
struct MemoryPoint {
  std::int64_t time_ns = 0;
  MemoryBytes bytes = {};
};

/// A device's memory as its allocator and its driver count it, bytes.
struct AllocatorMemory {
  std::int64_t allocated = 0;  ///< in tensors
  std::int64_t reserved = 0;   ///< taken from the driver
  std::int64_t used = 0;       ///< of the device, what is reserved among it; 0: it is not known
};

/// When the whole process was looked at, or the device that has its tensors.
struct MemoryLook {
  std::string name;  ///< "end of forward"
  std::int64_t time_ns = 0;
  int event = 0;  ///< the next one
  ResidentMemory resident = {};
  std::int64_t workspace_bytes = 0;            ///< of the kernels
  std::optional<AllocatorMemory> device = {};  ///< tensors are there, and not in the process
};

/// All of a process, or of a device, at a moment. The categories and what is unexplained are the
/// memory that is resident, or used.
struct MemoryMoment {
  std::string name;
  std::int64_t time_ns = 0;
  MemoryBytes tensors = {};   ///< as the allocator counts them
  MemoryBytes bytes = {};     ///< with what is no tensor
  std::int64_t resident = 0;  ///< of a device: used
  /// Of the category library: what it consists of.
  std::vector<std::pair<const char*, std::int64_t>> library = {};

  std::int64_t unexplained() const { return resident - bytes.sum(); }
};

/// Operations and the bytes that each saves, the largest first.
using SavedBytes = std::vector<std::pair<std::string, std::int64_t>>;

class MemoryAccount {
 public:
  /// `before`: the process before the run allocated anything. `looks`: in order, one at least.
  MemoryAccount(RecordedMemory recorded, const ResidentMemory& before,
                std::vector<MemoryLook> looks);

  const RecordedMemory& recorded() const { return recorded_; }
  /// Of the block of that number.
  MemoryCategory category(int block) const { return categories_[block]; }
  /// The first is what the step begins with, then one an event.
  const std::vector<MemoryPoint>& points() const { return points_; }
  /// The looks, and among them the peak, "peak": the first moment when tensors hold the most. The
  /// process was looked at soon after it; freed memory stays in the heap until then.
  const std::vector<MemoryMoment>& moments() const { return moments_; }
  const MemoryMoment& peak() const { return moments_[peak_]; }
  /// Of a device, not of a process.
  bool of_device() const { return of_device_; }
  /// The name of the innermost span at the peak.
  std::string peak_phase() const;
  std::int64_t begin_ns() const;
  std::int64_t end_ns() const;

  /// What the first forward saves for backward in a unit. `again`: what backward saves that
  /// computes it again, the first time.
  SavedBytes saved(const std::string& unit, bool again = false) const;
  /// The units that save something, in the order of the forward.
  std::vector<std::string> units() const;

 private:
  MemoryCategory find_category(const MemoryBlock& block) const;
  MemoryMoment moment_at(const MemoryLook& look, const MemoryPoint& point, int event) const;
  void add_process(const MemoryLook& look, int event, MemoryMoment& moment) const;
  void add_device(const MemoryLook& look, MemoryMoment& moment) const;

  RecordedMemory recorded_;
  ResidentMemory before_;
  std::vector<MemoryCategory> categories_;
  std::vector<MemoryPoint> points_;
  std::vector<MemoryMoment> moments_;
  std::size_t peak_ = 0;
  bool of_device_ = false;
};

}  // namespace ddprun
