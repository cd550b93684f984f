// Descriptors that are good but for the statement that changes `d`: BAD(kind, case, statement).
// All are compiled together, and a library is linked for each case (CMakeLists.txt).
#include <cstdlib>
#include <stdexcept>

#include "ddprun/base/build_id.h"
#include "ddprun/device/device_library.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/plugin.h"

namespace {

ddprun::Plugin* create_throws() { throw std::runtime_error("no such luck"); }
ddprun::Plugin* create_throws_int() { throw 7; }
ddprun::Plugin* create_aborts() { std::abort(); }
ddprun::Plugin* create_gives_null() { return nullptr; }

constexpr ddprun::PluginDescriptor good_plugin() {
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

constexpr ddprun::DeviceDescriptor good_device() {
  return {
      .library = {sizeof(ddprun::DeviceDescriptor), ddprun::kDeviceApiVersion, DDPRUN_BUILD_ID,
                  "cuda"},
      .probe = [](ddprun::DeviceProbe& probe) { probe.count = 1; },
      .create = [](int) -> ddprun::Device* { return nullptr; },
  };
}

}  // namespace

#define BAD(kind, name, ...)                                \
  extern "C" const decltype(good_##kind()) bad_##name;      \
  constinit const decltype(good_##kind()) bad_##name = [] { \
    auto d = good_##kind();                                 \
    __VA_ARGS__;                                            \
    return d;                                               \
  }();

BAD(plugin, larger_size, d.size += 8)
BAD(plugin, older_size, d.size -= 8, d.api_version = 0)
BAD(plugin, older_api, d.api_version = 0)
BAD(plugin, newer_api, d.api_version += 1)
BAD(plugin, other_build_id, d.build_id = "torch 1.13.0, gcc 9")
BAD(plugin, null_build_id, d.build_id = nullptr)
BAD(plugin, unknown_kind, d.kind = 7)
BAD(plugin, bad_name, d.name = "Not-A-Name")
BAD(plugin, empty_name, d.name = "")
BAD(plugin, null_name, d.name = nullptr)
BAD(plugin, null_summary, d.summary = nullptr)
BAD(plugin, null_version, d.version = nullptr)
BAD(plugin, null_create, d.create = nullptr)
BAD(plugin, null_destroy, d.destroy = nullptr)
BAD(plugin, create_throws, d.create = create_throws)
BAD(plugin, create_throws_int, d.create = create_throws_int)
BAD(plugin, create_gives_null, d.create = create_gives_null)
BAD(plugin, create_aborts, d.create = create_aborts)
BAD(plugin, not_a_strategy, d.name = "not_a_strategy")
BAD(plugin, duplicate_name, d.name = "twin")
BAD(plugin, duplicate_name_too, d.name = "twin")

BAD(device, device_size, d.library.size = 1)
BAD(device, device_api, d.library.api_version = 999)
BAD(device, device_build, d.library.build_id = "torch 0")
BAD(device, device_no_build, d.library.build_id = nullptr)
BAD(device, device_name, d.library.name = "abacus")
