// The plugins of the build, for tests that make experiments of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ddprun/config/registry.h"
#include "support/experiments.h"
#include "support/plugin_choice.h"

namespace ddprun::test {

inline const PluginRegistry& registry() {
  static const auto* const instance = new PluginRegistry({plugin_folder()});
  return *instance;
}

/// By its YAML: "{name: zero1, bucket_mb: 1}".
inline std::shared_ptr<Strategy> strategy_of(const std::string& yaml) {
  return make_strategy(registry(), strategy_choice(yaml));
}

/// A registry tries libraries in a forked child. It is made before a test starts threads, since the
/// sanitizers' allocators may wait without end in a child that was forked beside some.
class RegistryBeforeTests final : public testing::Environment {
 public:
  void SetUp() override { registry(); }
};
inline const testing::Environment* const registry_before_tests =
    testing::AddGlobalTestEnvironment(new RegistryBeforeTests);

}  // namespace ddprun::test
