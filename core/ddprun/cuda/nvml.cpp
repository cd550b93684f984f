// Calls into libnvidia-ml; the declarations here are those of its API.
#include "ddprun/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <strings.h>

#include <array>
#include <cstring>

namespace ddprun::cuda {

namespace {

constexpr int kSuccess = 0;
constexpr int kSmClock = 1;
constexpr int kP2pNvlink = 2;          // nvmlGpuP2PCapsIndex_t
constexpr int kP2pOk = 0;              // nvmlGpuP2PStatus_t
constexpr unsigned kMostNvlinks = 36;  // asked for more than there are, the library refuses
constexpr int kRemoteSwitch = 2;       // nvmlIntNvLinkDeviceType_t

struct PciInfo {  // nvmlPciInfo_t
  char legacy_bus[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_text[32];
};

/// CUDA writes 0000:18:00.0, NVML 00000000:18:00.0.
bool same_bus(const char* a, const char* b) {
  const auto tail = [](const char* text) {
    const std::size_t length = std::strlen(text);
    return text + (length > 12 ? length - 12 : 0);
  };
  return strcasecmp(tail(a), tail(b)) == 0;
}

/// Of nvmlGpuTopologyLevel_t, which counts by tens: on one board; behind one PCI Express bridge;
/// several, but no host bridge; a host bridge; several of a NUMA node; the link between NUMA nodes.
const char* words_of_level(int level) {
  constexpr std::array kWords = {"PSB", "PIX", "PXB", "PHB", "NODE", "SYS"};
  const bool known = level >= 0 && level <= 50 && level % 10 == 0;
  return known ? kWords[static_cast<std::size_t>(level / 10)] : "";
}

}  // namespace

template <class Function>
Function Nvml::symbol(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
}

Nvml::Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  // Without it, or if it fails, every later call fails.
  if (const auto begin = symbol<int (*)()>("nvmlInit_v2")) begin();
}

Nvml::~Nvml() {
  if (const auto end = symbol<int (*)()>("nvmlShutdown")) end();
}

std::string Nvml::driver() const {
  const auto version = symbol<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = {};
  return version != nullptr && version(text, sizeof text) == kSuccess ? text : "";
}

std::string Nvml::clock_now(const std::string& bus) const {
  const auto clock = symbol<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
  void* const handle = device(bus);
  unsigned mhz = 0;
  if (clock == nullptr || handle == nullptr || clock(handle, kSmClock, &mhz) != kSuccess) return {};
  return fmt::format(" ({} now)", mhz);
}

void* Nvml::device(const std::string& bus) const {
  const auto find = symbol<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  void* handle = nullptr;
  if (find == nullptr || find(bus.c_str(), &handle) != kSuccess) return nullptr;
  return handle;
}

int Nvml::nvlinks(void* device, void* peer, const std::string& peer_bus) const {
  const auto p2p = symbol<int (*)(void*, void*, int, int*)>("nvmlDeviceGetP2PStatus");
  const auto state = symbol<int (*)(void*, unsigned, int*)>("nvmlDeviceGetNvLinkState");
  const auto type = symbol<int (*)(void*, unsigned, int*)>("nvmlDeviceGetNvLinkRemoteDeviceType");
  const auto remote =
      symbol<int (*)(void*, unsigned, PciInfo*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  int status = -1;
  if (p2p == nullptr || state == nullptr || type == nullptr || remote == nullptr ||
      p2p(device, peer, kP2pNvlink, &status) != kSuccess || status != kP2pOk) {
    return 0;
  }
  int links = 0;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    int active = 0;
    if (state(device, link, &active) != kSuccess || active == 0) continue;
    int kind = 0;
    if (type(device, link, &kind) == kSuccess && kind == kRemoteSwitch) {
      ++links;
      continue;
    }
    PciInfo pci = {};
    if (remote(device, link, &pci) == kSuccess && same_bus(pci.bus_text, peer_bus.c_str())) ++links;
  }
  return links;
}

std::string Nvml::link(const std::string& bus, const std::string& peer_bus) const {
  void* const one = device(bus);
  void* const other = device(peer_bus);
  if (one == nullptr || other == nullptr) return {};
  if (const int links = nvlinks(one, other, peer_bus); links > 0) return fmt::format("NV{}", links);
  const auto ancestor = symbol<int (*)(void*, void*, int*)>("nvmlDeviceGetTopologyCommonAncestor");
  int level = -1;
  if (ancestor == nullptr || ancestor(one, other, &level) != kSuccess) return {};
  return words_of_level(level);
}

}  // namespace ddprun::cuda
