// Which plugins the contract is tried on: `ddprun-contract [LIBRARY] [GoogleTest's arguments]`.
// With a library its plugin alone is tried, together with the others of the search path.
#include "plugins_under_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>

#include "combinations.h"

namespace ddprun {
namespace {

PluginRegistry& all_plugins() {
  static auto* const instance = new PluginRegistry(plugin_search_path({}));
  return *instance;
}

/// The cases of one plugin: their names are STRATEGY__PRECISION__ATTENTION__... or STRATEGY__...
std::string cases_of(const PluginInfo& plugin) {
  if (plugin.kind != PluginKind::strategy) return "*__" + plugin.name + "__*";
  std::string cases;
  for (const char* const options : kOptionNames) cases += "*/" + plugin.name + options + "__*:";
  return cases;
}

void try_only(const std::string& library) {
  all_plugins().add_library(library);
  for (const PluginInfo& plugin : all_plugins().list()) {
    if (!std::filesystem::equivalent(plugin.file, library)) continue;
    testing::GTEST_FLAG(filter) = cases_of(plugin);
  }
}

}  // namespace

const PluginRegistry& registry() { return all_plugins(); }

}  // namespace ddprun

/// test_main.cpp calls it before GoogleTest asks for the cases.
void take_arguments(int& argc, char** argv) {
  if (argc < 2 || std::string(argv[1]).starts_with("-")) return;
  try {
    ddprun::try_only(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    std::exit(2);
  }
  std::copy(argv + 2, argv + argc + 1, argv + 1);  // with the null behind the last
  --argc;
}
