// Finds and loads a library of our own, and holds its descriptor against what this core expects.
#include "ddprun/base/own_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "ddprun/base/error.h"
#include "ddprun/base/shared_library.h"

namespace ddprun {

namespace fs = std::filesystem;

fs::path own_library_file(const std::string& name) {
  static const char in_this_library = 0;
  Dl_info here = {};
  dladdr(&in_this_library, &here);
  const fs::path folder = fs::weakly_canonical(here.dli_fname).parent_path();
  return folder / ("libddprun_" + name + ".so");
}

const void* load_own_library(const fs::path& file, const char* symbol, const std::string& noun,
                             const std::string& kind, const OwnLibrary& expected) {
  const void* found = nullptr;
  try {
    found = library_symbol(file, symbol, noun, kRebuildHint);
  } catch (const PluginError& error) {
    throw ConfigError(error.text());
  }
  if (found == nullptr) {
    throw ConfigError({.what = "the library is not of " + kind,
                       .where = file.string(),
                       .got = fmt::format("no symbol {}", symbol),
                       .expected = "a library that ddprun's build made for " + kind,
                       .hint = kRebuildHint});
  }
  const OwnLibrary& got = *static_cast<const OwnLibrary*>(found);
  const auto refuse = [&](const std::string& is, const std::string& wanted) {
    throw ConfigError({.what = noun + " does not fit this ddprun",
                       .where = file.string(),
                       .got = is,
                       .expected = wanted,
                       .hint = kRebuildHint});
  };
  if (got.size != expected.size) {
    refuse(fmt::format("a descriptor of {} bytes", got.size),
           fmt::format("{} bytes", expected.size));
  }
  if (got.api_version != expected.api_version) {
    refuse(fmt::format("API {}", got.api_version), fmt::format("API {}", expected.api_version));
  }
  const auto text = [](const char* given) { return std::string(given == nullptr ? "" : given); };
  if (text(got.build_id) != expected.build_id) refuse(text(got.build_id), expected.build_id);
  if (text(got.name) != expected.name) refuse(text(got.name), expected.name);
  return found;
}

}  // namespace ddprun
