// The driver's management library, the only source of the driver's release, the current clocks, and
// the links between devices.
#pragma once

#include <string>

namespace ddprun::cuda {

/// nvml.h does not come with LibTorch, and the library comes with the driver alone. So it is loaded
/// by name. What it does not say is returned as empty text. Devices are named by their PCI bus ids.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver() const;
  /// " (345 now)", MHz of the multiprocessors.
  std::string clock_now(const std::string& bus) const;
  /// What joins two devices, as `nvidia-smi topo -m` says it.
  std::string link(const std::string& bus, const std::string& peer_bus) const;

 private:
  template <class Function>
  Function symbol(const char* name) const;
  /// Null if the library does not know it.
  void* device(const std::string& bus) const;
  /// NVLinks of a device that lead to the peer, or to a switch.
  int nvlinks(void* device, void* peer, const std::string& peer_bus) const;

  void* library_;
};

}  // namespace ddprun::cuda
