// Loads the shared library of a device: its handshake, and what it says about this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/own_library.h"
#include "ddprun/device/device.h"
#include "ddprun/device/device_choice.h"

namespace ddprun {

/// What a device's library finds on this machine.
struct DeviceProbe {
  bool driver = false;         ///< it is installed, whether or not it works
  int count = 0;               ///< devices that a rank can take; 0: `refusal` says why
  int compute_capability = 0;  ///< of the least of the devices, 90 is 9.0
  ErrorText refusal;           ///< one sentence in `what`, the driver's words in `got`, a hint
  std::vector<std::pair<std::string, std::string>> facts;    ///< driver, runtime, NCCL
  std::vector<std::pair<std::string, std::string>> devices;  ///< "cuda:0": name, memory, clocks
  std::vector<std::string> warnings;                         ///< "no peer access: 0-1"
};

/// Raised whenever Device or DeviceProbe changes shape.
inline constexpr std::uint32_t kDeviceApiVersion = 4;

/// The C symbol `ddprun_device_v1` of such a library.
struct DeviceDescriptor {
  OwnLibrary library;  ///< its name is that of world.device
  /// Initializes the driver, so call it only in a process that does not fork ranks afterwards.
  void (*probe)(DeviceProbe&);
  /// The device of this number, in the rank's own process. Throws Error.
  Device* (*create)(int index);
};

/// Loads and checks a device's library, for good. The driver is not touched. Throws ConfigError if
/// the library was not built, cannot be loaded, or was built differently.
const DeviceDescriptor& load_device_library(const std::string& name,
                                            const std::filesystem::path& file);

/// Finds out what this machine has of a device. A child process does the work, so that this process
/// can still fork ranks that use the driver. Throws ConfigError as load_device_library() does, or
/// if the child fails or takes longer than half a minute.
DeviceProbe probe_device(DeviceKind kind);

/// Throws ConfigError unless `local_ranks` ranks can run on this host's devices of that kind, one
/// each. `where` is the place of world.device in the file. Any number of ranks can run on the CPU.
void check_device(DeviceKind kind, std::int64_t local_ranks, const std::string& where);

/// DeviceProbe::compute_capability of devices that have passed check_device(); 0 for the CPU.
int compute_capability(DeviceKind kind);

/// Opens the device of this host's rank `local_rank`. Throws Error.
std::shared_ptr<Device> open_device(DeviceKind kind, int local_rank);

}  // namespace ddprun
