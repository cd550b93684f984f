// The configurations that come with ddprun.
#pragma once

#include <filesystem>

namespace ddprun {

/// Their folder, <exe>/../share/ddprun/configs, which is in a build folder as it is installed. It
/// need not be there.
std::filesystem::path shipped_configs();

}  // namespace ddprun
