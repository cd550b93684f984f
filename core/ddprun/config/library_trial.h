// Tries plugin libraries in a child process, so that a damaged one cannot take this process down.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ddprun/base/error.h"

namespace ddprun {

/// What became of a library; both parts are empty if it came through.
struct Trial {
  std::string death;                      ///< how it ended the child: "killed by signal 11 ..."
  std::optional<ErrorText> refusal = {};  ///< the error that was thrown

  bool passed() const { return death.empty() && !refusal; }
};

/// Calls `use` for each file in a child process, and then its static destructors; an Error that
/// `use` throws is a refusal. What failed there shall not be tried again in this process: the
/// loader itself may crash over a damaged file, or not, as memory happens to be. There is one child
/// for all files, and one more for each that ends it. A file is not tried again unless it was
/// written to.
std::map<std::filesystem::path, Trial> try_libraries(
    const std::vector<std::filesystem::path>& files,
    const std::function<void(const std::filesystem::path&)>& use);

}  // namespace ddprun
