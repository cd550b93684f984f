// Loads a plugin that this build made, by kind and name, without the registry.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun::test {

/// Makes a new object of <kind>_<name>.so; kinds are "attention", "precision" and "strategy". The
/// library stays loaded.
template <class Interface>
std::shared_ptr<Interface> load_plugin(const std::string& kind, const std::string& name) {
  const std::string file = DDPRUN_BUILD_DIR "/lib/ddprun/plugins/" + kind + "_" + name + ".so";
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto* const descriptor =
      static_cast<const PluginDescriptor*>(::dlsym(library, "ddprun_plugin_v1"));
  if (descriptor == nullptr) throw std::runtime_error(::dlerror());
  EXPECT_EQ(descriptor->name, name);
  return {dynamic_cast<Interface*>(descriptor->create()), descriptor->destroy};
}

}  // namespace ddprun::test

namespace ddprun {

/// What a plugin's unsupported() says; empty if it can run.
inline std::string words_of(const std::optional<Refusal>& refusal) {
  if (!refusal) return {};
  EXPECT_NE(refusal->reason, "");
  EXPECT_NE(refusal->expected, "");
  return refusal->reason + "; " + refusal->expected + "; " + refusal->hint;
}

}  // namespace ddprun
