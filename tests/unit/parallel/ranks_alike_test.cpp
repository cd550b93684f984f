// Ranks whose programs do not tell DataParallel the same, which no collective need show.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ddprun/parallel/data_parallel.h"
#include "support/error_of.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun::ranks_alike_test {
namespace {

/// What rank 1 is given otherwise.
struct OtherChoice {
  const char* name;
  const char* strategy;
  std::function<void(OptimizerConfig& optimizer)> change;
  const char* got;
  const char* expected;
};

class RanksChoices : public testing::TestWithParam<OtherChoice> {};

TEST_P(RanksChoices, AreHeldAgainstEachOther) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor weight = at::ones({8, 8}).requires_grad_();
    OptimizerConfig optimizer;
    const bool other = group.rank() == 1;
    if (other) GetParam().change(optimizer);
    const auto strategy = test::strategy_of(other ? GetParam().strategy : "{name: zero1}");
    Precision precision;
    EXPECT_THAT(test::error_of([&] {
                  DataParallel({{"weight", weight}}, group, *strategy, precision, optimizer);
                }),
                AllOf(HasSubstr("different plugins, options or optimizers"),
                      HasSubstr(GetParam().got), HasSubstr(GetParam().expected)))
        << "on rank " << group.rank();
  });
}

const OtherChoice kOtherChoices[] = {
    {"strategy", "{name: flat}", [](auto&) {}, "got: on rank 1: strategy flat",
     "expected: as on rank 0: strategy zero1"},
    {"options", "{name: zero1, gather_under_forward: true}", [](auto&) {}, "on rank 1: a plan with",
     "as on rank 0: a plan with"},
    {"optimizer", "{name: zero1}", [](auto& optimizer) { optimizer.weight_decay = 0; },
     "weight_decay 0, ", "weight_decay 0.1, "},
    {"groups", "{name: zero1}",
     [](auto& optimizer) { optimizer.groups = {{.match = "w*", .weight_decay = 0.5}}; },
     "; of w*: lr_scale 1, weight_decay 0.5", "momentum 0"},
};
INSTANTIATE_TEST_SUITE_P(Differ, RanksChoices, testing::ValuesIn(kOtherChoices),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ddprun::ranks_alike_test
