// What comes with ddprun beside the program: configurations, and examples.
#pragma once

#include <filesystem>

namespace ddprun {

inline constexpr const char* kShippedConfigs = "configs";
inline constexpr const char* kShippedPlugins = "examples/plugins";

/// <exe>/../share/ddprun/NAME, which is in a build folder as it is installed. It need not be there.
std::filesystem::path shipped_place(const std::filesystem::path& name);

/// The same. Throws ConfigError if nothing is there.
std::filesystem::path shipped_file(const std::filesystem::path& name);

}  // namespace ddprun
