// What makes a shared library a ddprun plugin: the one C symbol that is checked first.
#pragma once

#include <cstdint>

#include "ddprun/base/build_id.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Raised whenever a class of the SDK changes shape. Another version is refused.
inline constexpr std::uint32_t kPluginApiVersion = 19;

/// The C symbol `ddprun_plugin_v1`. It is plain data, so that it can be read from a library built
/// in any way. The fields are checked in this order, before any C++ object is used.
struct PluginDescriptor {
  std::uint32_t size;         ///< sizeof(PluginDescriptor)
  std::uint32_t api_version;  ///< kPluginApiVersion
  const char* build_id;       ///< DDPRUN_BUILD_ID of the library
  std::uint32_t kind;         ///< a PluginKind
  const char* name;           ///< the name in YAML: [a-z0-9_]+
  const char* summary;        ///< one line for `ddprun list`
  const char* version;        ///< the plugin's own version
  Plugin* (*create)();        ///< never returns null; may throw
  void (*destroy)(Plugin*);
};

}  // namespace ddprun

/// Export `Class` as the plugin of this library, one per library:
///     DDPRUN_STRATEGY(MyClass, "my_name", "one line", "1.0")
#define DDPRUN_STRATEGY(Class, ...) DDPRUN_PLUGIN(Class, strategy, __VA_ARGS__)
#define DDPRUN_PRECISION(Class, ...) DDPRUN_PLUGIN(Class, precision, __VA_ARGS__)
#define DDPRUN_ATTENTION(Class, ...) DDPRUN_PLUGIN(Class, attention, __VA_ARGS__)
#define DDPRUN_PLUGIN(Class, kind, ...) DDPRUN_PLUGIN_AS(ddprun_plugin_v1, Class, kind, __VA_ARGS__)
#define DDPRUN_PLUGIN_AS(symbol, Class, kind, ...)                                           \
  extern "C" __attribute__((visibility("default"))) const ::ddprun::PluginDescriptor symbol; \
  const ::ddprun::PluginDescriptor symbol = {                                                \
      sizeof(::ddprun::PluginDescriptor),                                                    \
      ::ddprun::kPluginApiVersion,                                                           \
      DDPRUN_BUILD_ID,                                                                       \
      static_cast<std::uint32_t>(::ddprun::PluginKind::kind),                                \
      __VA_ARGS__,                                                                           \
      []() -> ::ddprun::Plugin* { return new Class(); },                                     \
      [](::ddprun::Plugin* plugin) { delete plugin; }};
