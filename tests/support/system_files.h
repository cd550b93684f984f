// Files of /proc and /sys under a root of their own.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"

namespace ddprun::test {

/// `lines` of /proc/self/cgroup, and files below it, as long as the object lives.
class SystemFiles {
 public:
  SystemFiles(const std::string& lines,
              const std::vector<std::pair<std::string, std::string>>& files)
      : folder_("proc/self/cgroup", lines) {
    for (const auto& [file, text] : files) folder_.write(file, text);
  }

  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace ddprun::test
