// Finds them beside the executable, as plugins are.
#include "runner/launch/shipped_configs.h"

namespace ddprun {

namespace fs = std::filesystem;

fs::path shipped_configs() {
  std::error_code none;
  const fs::path bin = fs::read_symlink("/proc/self/exe", none).parent_path();
  // In a build folder it is a link, and what a file names stands beside where that leads.
  return fs::weakly_canonical(bin.parent_path() / "share" / "ddprun" / "configs", none);
}

}  // namespace ddprun
