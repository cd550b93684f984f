// The child writes a line for each library, and ends it when the library's destructors have run, so
// that its parent knows at which one it died, and when.
#include "ddprun/config/plugin_library.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <sstream>

#include "ddprun/base/child_process.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/shared_library.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

constexpr double kLimitS = 30;
/// Of static destructors; then SIGALRM ends the child.
constexpr unsigned kDestructorsLimitS = 5;

/// All 0 if there is no file.
FileIdentity identity_of(const fs::path& file) {
  struct stat status = {};
  return ::stat(file.c_str(), &status) == 0 ? ddprun::identity_of(status) : FileIdentity();
}

struct Known {
  std::mutex mutex;
  std::map<FileIdentity, Trial> trials;
};

Known& known() {
  static auto& the_one = *new Known;
  return the_one;
}

/// In the child.
void try_one(const fs::path& file, const std::function<void(const fs::path&)>& use, int fd) {
  try {
    use(file);
    write_all(fd, json_text(nullptr));
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(kDestructorsLimitS);
    run_static_destructors(file);
    ::alarm(0);
    write_all(fd, "\n");
  } catch (const Error& error) {
    write_all(fd, json_text(error.text()) + "\n");
  }
}

Trial trial_of(const std::string& line) {
  const json refusal = parse_json(line);
  return refusal.is_null() ? Trial() : Trial{{}, refusal.get<ErrorText>()};
}

/// Tries the files from `first` on, and returns the first that was not reached.
std::size_t try_from(std::size_t first, const std::vector<fs::path>& files,
                     const std::function<void(const fs::path&)>& use,
                     std::map<fs::path, Trial>& trials) {
  const ChildReport report = run_in_child(
      [&](int fd) {
        for (std::size_t i = first; i < files.size(); ++i) try_one(files[i], use, fd);
      },
      kLimitS);
  std::istringstream lines(report.text);
  std::string line;
  while (std::getline(lines, line) && !lines.eof()) trials[files[first++]] = trial_of(line);
  if (first < files.size()) {
    trials[files[first++]] = {report.death + (line.empty() ? "" : ", in a static destructor")};
  }
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
    if (const FileIdentity identity = identity_of(file); identity != FileIdentity()) {
      known().trials[identity] = trials[file];
    }
  }
  return trials;
}

}  // namespace ddprun
