// What a plugin throws names the plugin and the call; ddprun's own errors and memory that ran out
// stay what they are.
#include "ddprun/train/named_plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "ddprun/base/error.h"

namespace ddprun {
namespace {

class Throws final : public Strategy {
 public:
  void setup(StrategyContext&) override {}
  void on_gradient(int index) override {
    if (index == 0) throw std::runtime_error("no such bucket");
    if (index == 1) throw CommError({.what = "a collective failed"});
    if (index == 2) throw std::bad_alloc();
    throw index;
  }
  void finish_backward() override { throw std::out_of_range("vector::at"); }
};

ErrorText thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.text();
  }
  return {};
}

TEST(NamedPlugins, ExceptionsNameThePluginAndTheCall) {
  const auto strategy = named(std::make_shared<Throws>(), "mine");
  const ErrorText hook = thrown_by([&] { strategy->on_gradient(0); });
  EXPECT_EQ(hook.what, "strategy \"mine\" threw an exception in on_gradient()");
  EXPECT_EQ(hook.got, "no such bucket");
  EXPECT_EQ(thrown_by([&] { strategy->finish_backward(); }).what,
            "strategy \"mine\" threw an exception in finish_backward()");
  EXPECT_EQ(thrown_by([&] { strategy->on_gradient(3); }).got,
            "an exception that is no std::exception");
}

TEST(NamedPlugins, WhatIsNotThePluginsFaultPasses) {
  const auto strategy = named(std::make_shared<Throws>(), "mine");
  EXPECT_THROW(strategy->on_gradient(1), CommError);
  EXPECT_THROW(strategy->on_gradient(2), std::bad_alloc);
}

}  // namespace
}  // namespace ddprun
