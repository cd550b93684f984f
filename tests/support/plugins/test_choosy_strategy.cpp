// A strategy that refuses its only switch where the products are float32, with a number whose least
// value is small.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace {

class TestChoosyStrategy final : public ddprun::Strategy {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("turned", &turned_, "a switch");
    options.option("rate", &rate_, "a number above nothing", {.min = 1e-8});
  }
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (!turned_ || run.dtypes.compute != c10::kFloat) return {};
    return ddprun::Refusal{.reason = "it is turned", .expected = "products that are not float32"};
  }
  void finish_backward() override {}

 private:
  bool turned_ = false;
  double rate_ = 1;
};

}  // namespace

DDPRUN_PLUGIN_AS(choosy_choosy, TestChoosyStrategy, strategy, "choosy", "choosy", "1.2")
