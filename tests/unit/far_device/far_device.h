// A GPU that is none: its memory is out of the host's reach, and the CPU's operators compute in it.
//
// Family: far_memory.cpp far_operators.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/device/device.h"

namespace ddprun::test {

/// PyTorch's device cuda:0 from the first one on, in a process that does not load libtorch_cuda.
/// What would go wrong on a GPU goes wrong here: host code that reads its tensors crashes; an
/// operator that is given tensors of both sides throws, as does one that waits for the device while
/// a step is captured. Captured work is replayed call by call at the addresses that it had, where
/// memory that was released since holds NaN. Of one rank.
class FarDevice final : public Device {
 public:
  FarDevice();

  c10::Device torch_device() const override { return {c10::kCUDA, 0}; }
  Mark mark() override;
  std::int64_t time_of(Mark mark) override;
  void synchronize() override;
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override;
  bool capturing() const override;
  int compute_capability() const override { return 90; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int world_size,
                                                 std::chrono::milliseconds timeout) override;

 private:
  std::deque<std::int64_t> captured_;  // the times of mark -m: m - 1
};

/// What captured work consists of; null while none is captured.
struct FarCalls {
  std::vector<std::function<void()>> calls;
};
extern FarCalls* far_capture;

/// Throws while a step is captured: the CPU would wait for the device.
void refuse_to_wait(const std::string& what);

/// A tensor of the device: new memory, or that of another.
at::Tensor far_tensor(c10::Storage memory, const at::Tensor& like, at::IntArrayRef sizes,
                      at::IntArrayRef strides, std::int64_t offset);
c10::Storage far_storage(std::size_t bytes);
/// A copy of what a tensor of the CPU's has beneath.
c10::Storage far_copy(const c10::Storage& of_host);
/// The same memory as a tensor of the CPU's.
at::Tensor near_alias(const at::Tensor& far);
/// Whether it lies where a tensor of the CPU's does.
bool lies_at(const c10::Storage& far, const c10::Storage& near);
/// As captured work keeps it: without owning memory that was there before the capture.
at::Tensor as_captured(const at::Tensor& far);
/// All of the device's memory, to be put back when a capture is over; what is newer becomes NaN.
class FarMemoryBefore {
 public:
  FarMemoryBefore();
  ~FarMemoryBefore();
};

/// Whether memory of the host is page-locked.
bool is_page_locked(const void* memory);

}  // namespace ddprun::test
