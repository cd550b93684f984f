// A strategy that does nothing, of several names, with one option; and a precision with every
// default.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace {

class TestStrategy final : public ddprun::Strategy {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("count", &count_, "a number of things", {.min = 1});
  }
  void finish_backward() override {}

 private:
  std::int64_t count_ = 3;
};

class TestPrecision final : public ddprun::Precision {};

}  // namespace

DDPRUN_PLUGIN_AS(first_a, TestStrategy, strategy, "apple", "first", "1.2")
DDPRUN_PLUGIN_AS(first_b, TestStrategy, strategy, "pear", "first", "1.2")
DDPRUN_PLUGIN_AS(first_c, TestPrecision, precision, "apple", "first", "1.2")
DDPRUN_PLUGIN_AS(second_a, TestStrategy, strategy, "apple", "second", "1.2")
DDPRUN_PLUGIN_AS(second_b, TestStrategy, strategy, "quince", "second", "1.2")
DDPRUN_PLUGIN_AS(twins_a, TestStrategy, strategy, "apple", "twins", "1.2")
DDPRUN_PLUGIN_AS(twins_b, TestStrategy, strategy, "apple", "twins", "1.2")
