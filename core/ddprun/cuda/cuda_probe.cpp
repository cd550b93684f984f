// What the driver, the CUDA runtime and NCCL say about this machine.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ddprun/base/ranges.h"
#include "ddprun/cuda/cuda_device.h"
#include "ddprun/cuda/nvml.h"

namespace ddprun::cuda {

namespace {

std::string version_text(int version) {  // 13020 is 13.2
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string visible_devices() {
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  return variable == nullptr ? "" : fmt::format("; CUDA_VISIBLE_DEVICES is '{}'", variable);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::string runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version_text(version) : "unknown";
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string nccl_variables() {
  std::vector<std::string> set;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("NCCL_") || text.starts_with("TORCH_NCCL_")) set.emplace_back(text);
  }
  return set.empty() ? "none" : list_text(set, " ");
}

/// Why no device can be used; an empty `what` if they can.
ErrorText refusal_of(cudaError_t error, int count) {
  const auto words = fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
  if (error == cudaErrorInsufficientDriver) {
    return {.what = "NVIDIA's driver is too old for the CUDA that LibTorch is built for",
            .got = fmt::format("a driver for CUDA {}", version_text(driver_version())),
            .expected = fmt::format("CUDA {}", runtime_version()),
            .hint = "update the driver"};
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return {.what = "device cuda needs a GPU, and the driver sees none",
            .got = words + visible_devices(),
            .expected = "a GPU that this process may use",
            .hint = "nvidia-smi shows what is there; a container must be given its GPUs"};
  }
  if (error == cudaSuccess) return {};
  return {.what = "the CUDA driver cannot be used",
          .got = words + visible_devices(),
          .expected = "a driver that counts its GPUs",
          .hint = "does nvidia-smi work?"};
}

/// The compute capability of the least of the devices.
int least_compute_capability(int count) {
  int least = compute_capability(0);
  for (int index = 1; index < count; ++index) least = std::min(least, compute_capability(index));
  return least;
}

/// Which pairs of devices cannot reach each other's memory: "0-1 0-2".
std::string without_peer_access(int count) {
  std::vector<std::string> pairs;
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      int can = 0;
      cudaDeviceCanAccessPeer(&can, a, b);
      if (can == 0) pairs.push_back(fmt::format("{}-{}", a, b));
    }
  }
  return list_text(pairs, " ");
}

}  // namespace

int compute_capability(int index) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, index) +
         attribute(cudaDevAttrComputeCapabilityMinor, index);
}

std::string gpu_name(int index) {
  cudaDeviceProp properties = {};
  return cudaGetDeviceProperties(&properties, index) == cudaSuccess ? properties.name : "";
}

std::string describe_gpu(int index) {
  cudaDeviceProp properties = {};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return "unknown";
  char bus[32] = {};
  cudaDeviceGetPCIBusId(bus, sizeof bus, index);
  return fmt::format(
      "{}, {:.1f} GiB, compute capability {}.{}, {} SMs, up to {} MHz{}, memory {} MHz, PCI {}",
      properties.name, static_cast<double>(properties.totalGlobalMem) / (1 << 30), properties.major,
      properties.minor, properties.multiProcessorCount,
      attribute(cudaDevAttrClockRate, index) / 1000, Nvml().clock_now(bus),
      attribute(cudaDevAttrMemoryClockRate, index) / 1000, bus);
}

std::vector<std::pair<std::string, std::string>> describe_software() {
  const std::string release = Nvml().driver();
  return {{"driver", fmt::format("{}{}for CUDA {}", release, release.empty() ? "" : ", ",
                                 version_text(driver_version()))},
          {"cuda runtime", runtime_version()},
          {"nccl", nccl_version()},
          {"nccl variables", nccl_variables()}};
}

void probe(DeviceProbe& probe) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    probe.refusal = {.what = "device cuda needs NVIDIA's driver, which is not here",
                     .got = dlerror(),
                     .expected = "libcuda.so.1, which the driver brings",
                     .hint = "install it; a container must be given the host's GPUs"};
    return;
  }
  probe.driver = true;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  probe.refusal = refusal_of(error, count);
  if (!probe.refusal.what.empty()) return;
  probe.count = count;
  probe.compute_capability = least_compute_capability(count);
  probe.facts = describe_software();
  for (int index = 0; index < count; ++index) {
    probe.devices.emplace_back(fmt::format("cuda:{}", index), describe_gpu(index));
  }
  for (auto& line : link_matrix()) probe.devices.push_back(std::move(line));
  if (const std::string pairs = without_peer_access(count); !pairs.empty()) {
    probe.warnings.push_back(
        "no access to each other's memory, so traffic goes through the host: " + pairs);
  }
}

}  // namespace ddprun::cuda
