// One GPU as a device of the core, and the parts that the other files of this library make.
#pragma once

#include <ATen/cuda/CUDAEvent.h>

#include <deque>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ddprun/device/device.h"
#include "ddprun/device/device_library.h"
#include "ddprun/device/memory_history.h"

namespace ddprun::cuda {

/// What is on this machine. Initialises the driver.
void probe(DeviceProbe& probe);
/// As its maker calls it; empty if the driver does not say.
std::string gpu_name(int index);
/// Name, memory, compute capability, clocks of one device, on one line.
std::string describe_gpu(int index);
/// Versions of driver, runtime and NCCL, and the NCCL variables that are set.
std::vector<std::pair<std::string, std::string>> describe_software();

/// The caching allocator's history, of all devices of this process.
std::unique_ptr<MemoryHistory> record_memory_history();

/// ProcessGroupNCCL on the device, connected. Throws CommError.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, c10::Device device,
                                                    const CommConfig& config);

/// Marks are CUDA events, recorded on the calling thread's current stream. Their times are told by
/// the distance to an anchor, an event whose time on the CPU's clock is known; synchronise() sets a
/// new one, so that the two clocks do not drift apart and distances stay exact (CUDA gives them as
/// float milliseconds).
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);

  c10::Device torch_device() const override { return device_; }
  Mark mark() override;
  std::int64_t time_of(Mark mark) override;
  void synchronise() override;
  DeviceMemory memory() const override;
  void reset_memory() override;
  std::shared_ptr<void> count_memory() override { return nullptr; }
  std::unique_ptr<MemoryHistory> record_memory() override;
  std::string name() const override;
  std::vector<std::pair<std::string, std::string>> describe() const override;
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int world_size,
                                                 const CommConfig& config) override;

 private:
  /// Waits until the event has come to pass, or a collective before it cannot end any more.
  void wait_for(const at::cuda::CUDAEvent& event) const;
  void set_anchor();

  static constexpr Mark kKeptMarks = 1 << 19;

  c10::Device device_;
  std::int64_t limit_ns_ = 0;  // of a wait; 0: none
  c10::weak_intrusive_ptr<c10d::Backend> backend_;

  std::mutex mutex_;                        // of what follows
  std::deque<at::cuda::CUDAEvent> events_;  // of mark m: m % kKeptMarks
  Mark next_ = 1;
  at::cuda::CUDAEvent anchor_;
  Mark anchor_mark_ = 0;  // the first mark after it
  std::int64_t anchor_ns_ = 0;
};

}  // namespace ddprun::cuda
