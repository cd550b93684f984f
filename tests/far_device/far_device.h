// A GPU that is none: its memory is out of the host's reach, and the CPU's operators compute in it.
//
// Family: far_device.cpp far_memory.cpp far_operators.cpp far_streams.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace ddprun::test {

/// Of this rank, which has one of them.
extern c10::Device far_device;
/// How many there are: DDPRUN_FAR_DEVICES, 2 if it is not set.
int far_devices();
/// Throws where a rank would use a device that is not its own.
void require_far_device(c10::Device device);

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

/// In tensors. A device has 2 GiB.
struct FarBytes {
  std::int64_t now = 0;
  std::int64_t peak = 0;  ///< since reset_far_peak()
  std::int64_t most = 0;  ///< since the device was opened
};
FarBytes far_bytes();
void reset_far_peak();

}  // namespace ddprun::test
