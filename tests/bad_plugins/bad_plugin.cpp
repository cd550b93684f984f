// Plugins' descriptors that are good but for the one change that their case makes to `d`.
#include <cstdlib>
#include <stdexcept>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/plugin.h"

namespace {

ddprun::Plugin* create_throws() { throw std::runtime_error("no such luck"); }
ddprun::Plugin* create_throws_int() { throw 7; }
ddprun::Plugin* create_aborts() { std::abort(); }
ddprun::Plugin* create_gives_null() { return nullptr; }

constexpr ddprun::PluginDescriptor good() {
  return {
      .size = sizeof(ddprun::PluginDescriptor),
      .api_version = ddprun::kPluginApiVersion,
      .build_id = DDPRUN_BUILD_ID,
      .kind = static_cast<std::uint32_t>(ddprun::PluginKind::strategy),
      .name = "bad",
      .summary = "a library for tests",
      .version = "1.0",
      .create = []() -> ddprun::Plugin* { return new ddprun::Plugin(); },
      .destroy = [](ddprun::Plugin* plugin) { delete plugin; },
  };
}

}  // namespace

#define BAD_plugin(name, ...)                                \
  extern "C" const ddprun::PluginDescriptor bad_##name;      \
  constinit const ddprun::PluginDescriptor bad_##name = [] { \
    ddprun::PluginDescriptor d = good();                     \
    __VA_ARGS__;                                             \
    return d;                                                \
  }();
#include "bad_plugins.inc"
