// Files of /proc and /sys under a root of their own.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

/// `lines` of /proc/self/cgroup, and files below it, as long as the object lives.
class SystemFiles {
 public:
  SystemFiles(const std::string& name, const std::string& lines,
              const std::vector<std::pair<std::string, std::string>>& files)
      : root_(std::filesystem::temp_directory_path() / ("ddprun-" + name)) {
    std::filesystem::remove_all(root_);
    write("proc/self/cgroup", lines);
    for (const auto& [file, text] : files) write(file, text);
  }
  ~SystemFiles() { std::filesystem::remove_all(root_); }
  SystemFiles(const SystemFiles&) = delete;
  SystemFiles& operator=(const SystemFiles&) = delete;

  const std::filesystem::path& root() const { return root_; }

 private:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  std::filesystem::path root_;
};

}  // namespace ddprun::test
