// The child writes a line for each library, so that its parent knows at which one it died.
#include "ddprun/config/library_trial.h"

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <sstream>

#include "ddprun/base/child_process.h"
#include "ddprun/base/json.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

constexpr double kLimitS = 30;

/// Tells a file from what stood under its name before; all 0 if there is no file.
using Identity = std::array<std::int64_t, 5>;

Identity identity_of(const fs::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

struct Known {
  std::mutex mutex;
  std::map<Identity, Trial> trials;
};

Known& known() {
  static auto& the_one = *new Known;
  return the_one;
}

/// In the child: empty if the file came through.
std::string line_of(const fs::path& file, const std::function<void(const fs::path&)>& use) {
  try {
    use(file);
  } catch (const Error& error) {
    return json(error.text()).dump();
  }
  return {};
}

Trial trial_of(const std::string& line) {
  if (line.empty()) return {};
  return {{}, json::parse(line).get<ErrorText>()};
}

/// Tries the files from `first` on, and returns the first that was not reached.
std::size_t try_from(std::size_t first, const std::vector<fs::path>& files,
                     const std::function<void(const fs::path&)>& use,
                     std::map<fs::path, Trial>& trials) {
  const ChildReport report = run_in_child(
      [&](int fd) {
        for (std::size_t i = first; i < files.size(); ++i) {
          write_all(fd, line_of(files[i], use) + "\n");
        }
      },
      kLimitS);
  std::istringstream lines(report.text);
  for (std::string line; std::getline(lines, line);) trials[files[first++]] = trial_of(line);
  if (first < files.size()) trials[files[first++]] = {report.death};
  return first;
}

}  // namespace

std::map<fs::path, Trial> try_libraries(const std::vector<fs::path>& files,
                                        const std::function<void(const fs::path&)>& use) {
  const std::lock_guard lock(known().mutex);
  std::map<fs::path, Trial> trials;
  std::vector<fs::path> untried;
  for (const fs::path& file : files) {
    const auto found = known().trials.find(identity_of(file));
    if (found == known().trials.end()) {
      untried.push_back(file);
    } else {
      trials[file] = found->second;
    }
  }
  for (std::size_t first = 0; first < untried.size();) {
    first = try_from(first, untried, use, trials);
  }
  for (const fs::path& file : untried) {
    if (const Identity identity = identity_of(file); identity != Identity{}) {
      known().trials[identity] = trials[file];
    }
  }
  return trials;
}

}  // namespace ddprun
