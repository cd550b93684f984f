// Finds them beside the executable, as plugins are.
#include "runner/launch/shipped_files.h"

#include "ddprun/base/error.h"

namespace ddprun {

namespace fs = std::filesystem;

fs::path shipped_place(const fs::path& name) {
  std::error_code none;
  const fs::path bin = fs::read_symlink("/proc/self/exe", none).parent_path();
  // In a build folder it is behind a link, and what a file names stands beside where that leads.
  return fs::weakly_canonical(bin.parent_path() / "share" / "ddprun" / name, none);
}

fs::path shipped_file(const fs::path& name) {
  fs::path place = shipped_place(name);
  std::error_code none;
  if (fs::exists(place, none)) return place;
  throw ConfigError({.what = "a file that comes with ddprun is not there",
                     .where = place.string(),
                     .got = "nothing of that name",
                     .expected = name.string() + " in ../share/ddprun from the program",
                     .hint = "install ddprun again, whole: `cmake --install`"});
}

}  // namespace ddprun
