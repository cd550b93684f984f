// A plugin library whose descriptor is good but for the one change that DDPRUN_CHANGE makes to `d`.
#include <cstdlib>
#include <stdexcept>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/plugin.h"

namespace {

[[maybe_unused]] ddprun::Plugin* create_throws() { throw std::runtime_error("no such luck"); }
[[maybe_unused]] ddprun::Plugin* create_throws_int() { throw 7; }
[[maybe_unused]] ddprun::Plugin* create_aborts() { std::abort(); }
[[maybe_unused]] ddprun::Plugin* create_gives_null() { return nullptr; }

constexpr ddprun::PluginDescriptor descriptor() {
  ddprun::PluginDescriptor d = {
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
  DDPRUN_CHANGE;
  return d;
}

}  // namespace

extern "C" const ddprun::PluginDescriptor ddprun_plugin_v1;
const ddprun::PluginDescriptor ddprun_plugin_v1 = descriptor();
