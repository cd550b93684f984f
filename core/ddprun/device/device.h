// The device of a rank: where tensors live, when work was done, memory, and the backend that joins
// ranks on it.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace ddprun {

class MemoryHistory;
class MemorySource;

/// A point in the order of a device's work; never 0. On the CPU, where work is done when the call
/// returns, a mark is a time. On a GPU, which works behind the CPU, it is an event in a stream.
using Mark = std::int64_t;

/// What a device's allocator holds now, and its peaks and events since reset_memory().
struct DeviceMemory {
  std::int64_t allocated_bytes = 0;  ///< in tensors, now
  std::int64_t reserved_bytes = 0;   ///< taken from the driver, now
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t retries = 0;  ///< how often the cache was emptied because memory ran out
};

/// Work that was captured once and can be replayed as a whole: a CUDA graph.
class CapturedWork {
 public:
  virtual ~CapturedWork();
  /// Enqueues all of the work, behind what the calling thread has enqueued so far. Never waits.
  virtual void launch() = 0;
};

/// A rank's device, as the core sees it. A device need not have what has a default here. Each rank
/// creates its own after the fork, because a driver that was used before a fork does not work after
/// it.
class Device {
 public:
  virtual ~Device();

  /// Where the rank's tensors live: "cpu", "cuda:1".
  virtual c10::Device torch_device() const = 0;

  /// Whether work is done later than the call that gives it returns. Then the host has times of its
  /// own.
  virtual bool works_behind() const { return true; }
  /// Puts a mark behind the work that the calling thread has enqueued so far (on its current
  /// stream). Never waits. Any thread.
  virtual Mark mark() = 0;
  /// When the device reached the mark, in nanoseconds of now_ns(). Waits until it has. Throws
  /// CommError if a collective before the mark cannot end, and Error for an old mark (the last
  /// 500,000 are kept).
  virtual std::int64_t time_of(Mark mark) = 0;
  /// Returns when all work enqueued so far is done. Throws as time_of() does.
  virtual void synchronize() = 0;

  /// Calls `work` once. What it enqueues is not done but captured. `work` must not wait for the
  /// device, and must compute in memory that stays where it is. time_of() a mark within it is the
  /// time in the last launch; such marks are kept as long as the device. Returns null if the device
  /// cannot capture. Throws Error if something in `work` cannot be captured.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& work);
  /// True while capture() calls its `work`.
  virtual bool capturing() const { return false; }

  /// Zeros, if the device counts nothing.
  virtual DeviceMemory memory() const { return {}; }
  virtual void reset_memory() {}
  /// Counts memory() until the returned object is gone. The CPU counts only then, and only for the
  /// calling thread and autograd's. Null: this device counts all the time.
  virtual std::shared_ptr<void> count_memory();
  /// Of the whole device, whoever uses it, as its driver says, bytes. 0: it does not say.
  virtual std::int64_t used_memory() const { return 0; }
  /// Counts the blocks of this device's tensors for the calling thread and autograd's, until it is
  /// destroyed on this thread. The CPU's counts while count_memory()'s result is there, else null.
  virtual std::shared_ptr<MemorySource> memory_blocks();
  /// Records the allocator's history from now on. Null: this device has none.
  virtual std::unique_ptr<MemoryHistory> record_memory();

  /// 90 is 9.0; the CPU has none, 0.
  virtual int compute_capability() const { return 0; }
  /// The product's name, "NVIDIA H200"; empty for the CPU.
  virtual std::string name() const;
  /// Facts for result.json, in order. None for the CPU: environment.h has those.
  virtual std::vector<std::pair<std::string, std::string>> describe() const { return {}; }

  /// How the device's own backend sees this host, as the text of a file (NCCL's topology, XML).
  /// Empty if there is none, and on all ranks but 0.
  virtual std::string topology() const { return {}; }

  /// Connects the ranks by the device's own backend (NCCL); null if it has none and gloo or shm
  /// connects them. All ranks of a group call it, first those of the group of all. `timeout`: for
  /// connecting and for every collective. Throws CommError.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
      std::chrono::milliseconds timeout);
};

/// The CPU, whose marks are times.
Device& cpu_device();

}  // namespace ddprun
