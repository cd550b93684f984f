// The libraries that ddprun builds beside its core and loads when they are asked for: devices, MPI.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun {

/// What the one C symbol of such a library begins with. Like PluginDescriptor, it is checked field
/// by field before any C++ object crosses.
struct OwnLibrary {
  std::uint32_t size;         ///< of the whole symbol
  std::uint32_t api_version;  ///< raised whenever what the library exchanges changes shape
  const char* build_id;       ///< DDPRUN_BUILD_ID
  const char* name;
};

inline constexpr const char* kRebuildHint = "build ddprun again, with all of its libraries";

/// lib/libddprun_NAME.so beside libddprun_core.so.
std::filesystem::path own_library_file(const std::string& name);

/// Loads a library, for good, and returns what its symbol points to: a structure that begins with
/// an OwnLibrary. `noun`: "the library of device cuda"; `kind`: "a device". Throws ConfigError if
/// it cannot be loaded, has no such symbol, or is not as `expected`; the error names the first
/// field in which they differ.
const void* load_own_library(const std::filesystem::path& file, const char* symbol,
                             const std::string& noun, const std::string& kind,
                             const OwnLibrary& expected);

}  // namespace ddprun
