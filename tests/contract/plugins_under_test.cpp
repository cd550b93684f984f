// Which plugins the contract is tried on:
// `ddprun-contract [LIBRARY [KEY=VALUE...]] [GoogleTest's arguments]`. With a library its plugin
// alone is tried, with these options, together with the others of the search path.
#include "plugins_under_test.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>

#include "combinations.h"
#include "ddprun/base/text.h"

namespace ddprun {
namespace {

PluginRegistry& all_plugins() {
  static auto* const instance = new PluginRegistry(plugin_search_path({}));
  return *instance;
}

/// What the command line names; without a name: every plugin.
PluginChoice& only_plugin() {
  static auto* const instance = new PluginChoice;
  return *instance;
}

/// The cases of one plugin: their names are STRATEGY__PRECISION__ATTENTION__... or STRATEGY__...
std::string cases_of(const PluginChoice& plugin) {
  if (plugin.kind != PluginKind::strategy) return "*__" + plugin.name + "__*";
  std::string cases;
  for (const char* const options : kOptionNames) cases += "*/" + plugin.name + options + "__*:";
  return cases;
}

/// Whether a filter of GoogleTest takes the case: PATTERN:PATTERN-PATTERN:PATTERN, the latter
/// refused.
bool takes(const std::string& filter, const std::string& name) {
  const auto any = [&](const std::string& patterns) {
    return std::ranges::any_of(split_at(patterns, ':'), [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
  };
  const std::size_t minus = filter.find('-');
  if (minus == std::string::npos) return any(filter);
  return any(minus == 0 ? "*" : filter.substr(0, minus)) && !any(filter.substr(minus + 1));
}

void try_only(const std::string& library, const ConfigNode& options) {
  all_plugins().add_library(library);
  for (const PluginInfo& plugin : all_plugins().list()) {
    if (!std::filesystem::equivalent(plugin.file, library)) continue;
    only_plugin() = {.kind = plugin.kind, .name = plugin.name, .options = options};
    make_plugin(all_plugins(), only_plugin());  // or what is wrong with the options
  }
}

/// "bucket_mb=5" as a key of a mapping.
void add_option(const std::string& argument, ConfigNode& options) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    throw ConfigError({.what = "an option of a plugin is KEY=VALUE",
                       .where = "ddprun-contract",
                       .got = argument,
                       .expected = "bucket_mb=5"});
  }
  options.kind = ConfigNode::Kind::map;
  options.map.emplace_back(argument.substr(0, equals),
                           parse_yaml(argument.substr(equals + 1), argument));
}

}  // namespace

const PluginRegistry& registry() { return all_plugins(); }

void give_options(Experiment& experiment) {
  const PluginChoice& only = only_plugin();
  PluginChoice& chosen = experiment.plugin(only.kind);
  if (only.name.empty() || chosen.name != only.name) return;
  for (const auto& [key, value] : only.options.map) {
    std::erase_if(chosen.options.map, [&](const auto& each) { return each.first == key; });
    chosen.options.map.emplace_back(key, value);
    chosen.options.kind = ConfigNode::Kind::map;
  }
}

}  // namespace ddprun

/// test_main.cpp calls it before GoogleTest asks for the cases.
void take_arguments(int& argc, char** argv) {
  const auto is_own = [&](int i) { return i < argc && !std::string(argv[i]).starts_with("-"); };
  if (!is_own(1)) return;
  int next = 2;
  try {
    ddprun::ConfigNode options;
    for (; is_own(next); ++next) ddprun::add_option(argv[next], options);
    ddprun::try_only(argv[1], options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    std::exit(2);
  }
  std::copy(argv + next, argv + argc + 1, argv + 1);  // with the null behind the last
  argc -= next - 1;
}

/// Of the cases that GoogleTest's own arguments choose, those of the plugin.
void narrow_cases() {
  using namespace ddprun;
  if (only_plugin().name.empty()) return;
  const std::string chosen = testing::GTEST_FLAG(filter), own = cases_of(only_plugin());
  std::string both;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(t)->name();
      if (takes(own, name) && takes(chosen, name)) both += name + ":";
    }
  }
  if (both.empty()) both = "-*";
  testing::GTEST_FLAG(filter) = chosen == "*" ? own : both;  // GoogleTest prints it
}
