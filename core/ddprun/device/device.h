// What a rank computes on: where its tensors live, marks in the order of its work, and what joins
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

/// A point in a device's work, never 0. On the CPU, which has done what it was told when the call
/// returns, it is the time; on a GPU, which runs behind the CPU, an event in a stream.
using Mark = std::int64_t;

/// Bytes and events of a device's allocator since reset_memory(), or now.
struct DeviceMemory {
  std::int64_t allocated_bytes = 0;  ///< in tensors, now
  std::int64_t reserved_bytes = 0;   ///< taken from the driver, now
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t retries = 0;  ///< the cache was emptied because memory ran out
};

/// Work that a device was given once and does again as a whole: a CUDA graph.
class CapturedWork {
 public:
  virtual ~CapturedWork();
  /// Gives the device all of it, behind what the calling thread has given it so far. Never waits.
  virtual void launch() = 0;
};

/// One device, as the core sees it. One a rank; created in the rank's own process, where the driver
/// has not been used before a fork.
class Device {
 public:
  virtual ~Device();

  /// Where the rank's tensors live: "cpu", "cuda:1".
  virtual c10::Device torch_device() const = 0;

  /// Puts a mark behind the work that the calling thread has given the device so far (to its
  /// current stream). Never waits. Any thread.
  virtual Mark mark() = 0;
  /// When the device reached the mark, nanoseconds of now_ns(); waits until it has. Throws
  /// CommError if a collective before it cannot end. Of old marks (the last 500,000 are kept)
  /// throws Error.
  virtual std::int64_t time_of(Mark mark) = 0;
  /// Returns when all work given so far is done. Throws as time_of() does.
  virtual void synchronize() = 0;

  /// Calls `work` once and keeps what it gives the device instead of doing it. `work` waits for
  /// nothing on the device, and computes in memory that stays where it is. Marks within it are told
  /// for the last launch; they stay as long as the device. Null if the device cannot capture.
  /// Throws Error: something in `work` cannot be captured.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) = 0;
  /// Whether `work` of capture() is being called.
  virtual bool capturing() const = 0;

  virtual DeviceMemory memory() const = 0;
  virtual void reset_memory() = 0;
  /// Counts memory until the returned object is gone. On the CPU, where nothing is counted without,
  /// that is of the calling thread and of autograd's. Null: it is counted all the time.
  virtual std::shared_ptr<void> count_memory();
  /// Records the allocator's history; null where there is none.
  virtual std::unique_ptr<MemoryHistory> record_memory();

  /// The device as its maker calls it, "NVIDIA H200"; empty of the CPU.
  virtual std::string name() const;
  /// Facts for result.json, in order: of the CPU none, environment.h has them.
  virtual std::vector<std::pair<std::string, std::string>> describe() const = 0;

  /// The view that the device's own backend has of this host, as a file's text (NCCL's topology,
  /// XML); empty if there is none, and on other ranks than 0.
  virtual std::string topology() const { return {}; }

  /// The device's own backend (NCCL); null if gloo and shm join its ranks. A collective call.
  /// `timeout`: for connecting and for every collective. Throws CommError.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
      std::chrono::milliseconds timeout) = 0;
};

/// The CPU: marks are times.
Device& cpu_device();

}  // namespace ddprun
