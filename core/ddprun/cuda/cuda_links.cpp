// How the visible devices are joined.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "ddprun/base/ranges.h"
#include "ddprun/cuda/cuda_device.h"
#include "ddprun/cuda/nvml.h"

namespace ddprun::cuda {

namespace {

/// [a][b]: the link between devices a and b; "?" where the driver does not say.
std::vector<std::vector<std::string>> links() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<std::string> buses;
  for (int index = 0; index < count; ++index) {
    char bus[32] = {};
    cudaDeviceGetPCIBusId(bus, sizeof bus, index);
    buses.emplace_back(bus);
  }
  const Nvml nvml;
  std::vector<std::vector<std::string>> all(buses.size(), std::vector<std::string>(buses.size()));
  for (std::size_t a = 0; a < buses.size(); ++a) {
    for (std::size_t b = 0; b < buses.size(); ++b) {
      if (a == b) continue;
      const std::string link = nvml.link(buses[a], buses[b]);
      all[a][b] = link.empty() ? "?" : link;
    }
  }
  return all;
}

}  // namespace

std::string describe_links() {
  std::map<std::string, std::vector<std::string>> pairs;  // by link
  const auto all = links();
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      pairs[all[a][b]].push_back(fmt::format("{}-{}", a, b));
    }
  }
  return list_text(mapped(pairs,
                          [](const auto& pair) {
                            return fmt::format("{}: {}", pair.first, fmt::join(pair.second, " "));
                          }),
                   "; ");
}

std::vector<std::pair<std::string, std::string>> link_matrix() {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto all = links();
  if (all.size() < 2) return lines;
  for (std::size_t a = 0; a < all.size(); ++a) {
    std::vector<std::string> words;
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (a != b) words.push_back(fmt::format("cuda:{} {}", b, all[a][b]));
    }
    lines.emplace_back(fmt::format("links of cuda:{}", a), list_text(words));
  }
  return lines;
}

}  // namespace ddprun::cuda
