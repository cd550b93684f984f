// One GPU as a device of the core, and the functions that other files of this library define.
// Family: cuda_device.cpp cuda_graph.cpp cuda_links.cpp cuda_probe.cpp
// Family: library.cpp memory_history.cpp
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "ddprun/cuda/event.h"
#include "ddprun/device/device.h"
#include "ddprun/device/device_library.h"
#include "ddprun/device/memory_history.h"

namespace ddprun::cuda {

/// What is on this machine. Initializes the driver.
void probe(DeviceProbe& probe);
/// 90 is 9.0; 0 if the driver does not say.
int compute_capability(int index);
/// The maker's name of the GPU; empty if the driver does not say.
std::string gpu_name(int index);
/// Name, memory, compute capability, clocks of one device, on one line.
std::string describe_gpu(int index);
/// Versions of driver, runtime and NCCL, and the NCCL variables that are set.
std::vector<std::pair<std::string, std::string>> describe_software();

/// How the visible devices are joined: "NV18: 0-1 0-2 1-2"; empty if there are fewer than two. The
/// words are those of `nvidia-smi topo -m`. NV18 means 18 NVLinks; PIX, PXB, PHB, NODE and SYS mean
/// ever farther through PCI Express and sockets.
std::string describe_links();
/// The same for each device: ("links of cuda:0", "cuda:1 NV18, cuda:2 NV18").
std::vector<std::pair<std::string, std::string>> link_matrix();

/// A mark is a CUDA event, recorded on the calling thread's current stream. Marks of captured work
/// are negative numbers. The time of a mark is its distance to an anchor: an event whose time on
/// the CPU's clock is known. synchronize() sets a new anchor, so that the two clocks do not drift
/// apart and distances stay exact (CUDA gives them as float milliseconds).
class CudaDevice final : public Device {
 public:
  /// Makes a stream of its own the calling thread's current one, because the default stream cannot
  /// be captured. Autograd's threads use the stream of the forward pass.
  explicit CudaDevice(int index);
  /// Gives the caching allocator's memory back to the driver, so that another run in this process
  /// finds it. It does not if the device is still busy after a few seconds.
  ~CudaDevice() override;

  c10::Device torch_device() const override { return device_; }
  Mark mark() override;
  std::int64_t time_of(Mark mark) override;
  void synchronize() override;
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override;
  bool capturing() const override { return capturing_; }
  /// The captured work calls this right after each of its launches.
  void launched();
  DeviceMemory memory() const override;
  void reset_memory() override;
  std::int64_t used_memory() const override;
  /// Of all devices of this process.
  std::unique_ptr<MemoryHistory> record_memory() override;
  int compute_capability() const override;
  std::string name() const override;
  std::vector<std::pair<std::string, std::string>> describe() const override;
  std::string topology() const override;
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int world_size,
                                                 std::chrono::milliseconds timeout) override;

 private:
  /// Waits until the device has reached the event. Throws CommError if it never will, because a
  /// collective before it has failed.
  void wait_for(const Event& event) const;
  /// Throws CommError if a collective of the group has failed.
  void throw_if_failed() const;
  void set_anchor();
  const Event& event_of(Mark mark);

  static constexpr Mark kKeptMarks = 1 << 19;

  c10::Device device_;         // first: it is the current one when events are made
  std::int64_t limit_ns_ = 0;  // of a wait; 0: none
  /// The one of all ranks, or null.
  c10::intrusive_ptr<c10d::Backend> of_all_ranks() const;

  /// Of all ranks, then of groups of some.
  std::vector<c10::weak_intrusive_ptr<c10d::Backend>> backends_;

  std::mutex mutex_;                   // of what follows
  std::deque<Event> events_;           // of mark m: m % kKeptMarks
  std::deque<Event> captured_events_;  // of mark -m: m - 1
  std::atomic<bool> capturing_ = false;
  Mark launched_ = 0;  // behind the last launch of captured work; 0: there was none
  Mark next_ = 1;
  Event anchor_;
  Mark anchor_mark_ = 0;  // the first mark after it
  std::int64_t anchor_ns_ = 0;
};

}  // namespace ddprun::cuda
