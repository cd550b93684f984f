// A strategy that does nothing, named by its build, with one option.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
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

}  // namespace

DDPRUN_STRATEGY(TestStrategy, TEST_NAME, TEST_SUMMARY, "1.2")
