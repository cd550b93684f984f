// Tries plugin libraries in a child process, so that a damaged one cannot take this process down.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <vector>

namespace ddprun {

/// Calls `use` for each file in a child process, and returns how the child died at those that
/// killed it: "killed by signal 11 (Segmentation fault)". What `use` throws says nothing here: it
/// will throw it again in this process. There is one child for all files, and one more for each
/// that kills it. A file that came through once is not tried again unless it was written to.
std::map<std::filesystem::path, std::string> try_libraries(
    const std::vector<std::filesystem::path>& files,
    const std::function<void(const std::filesystem::path&)>& use);

}  // namespace ddprun
