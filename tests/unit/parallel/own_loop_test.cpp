// What a training loop of one's own can do wrong, and what it is told.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/plugin/run_description.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/precision_of.h"
#include "support/thread_ranks.h"

namespace ddprun::own_loop_test {
namespace {

class OwnLoop : public testing::Test {
 protected:
  at::Tensor loss() const { return (weight * weight).sum(); }

  at::Tensor weight = at::full({3}, 2.0F).requires_grad_();
  std::unique_ptr<ProcessGroup> group = connect_thread(make_thread_store(), 0, 1, {});
  test::Alone strategy, another;
  DataParallel ddp{{{"weight", weight}}, *group, strategy, test::fp32(), test::plain_sgd()};
};

TEST_F(OwnLoop, WhatIsNoLossIsRefused) {
  const auto refused = [&](const at::Tensor& returned) {
    return test::error_of([&] { ddp.forward([&] { return returned; }); });
  };
  EXPECT_THAT(refused({}), HasSubstr("returned no loss"));
  EXPECT_THAT(refused(weight * 2), HasSubstr("got: a tensor of 3 elements"));
  EXPECT_THAT(refused(loss().detach()), HasSubstr("a scalar to which no parameter leads"));
}

TEST_F(OwnLoop, ALossHasOneBackward) {
  const at::Tensor both = loss();
  const auto backward = [&](MicroBatch micro_batch) {
    return test::error_of([&] { ddp.backward(ddp.forward([&] { return both; }, micro_batch)); });
  };
  EXPECT_EQ(backward({0, 2}), "no error");
  EXPECT_THAT(backward({1, 2}), HasSubstr("backward ran twice for one loss"));
}

TEST_F(OwnLoop, MicroBatchesAreCountedInOrder) {
  const auto backward = [&](MicroBatch micro_batch) {
    return test::error_of([&] { ddp.backward(ddp.forward([&] { return loss(); }, micro_batch)); });
  };
  EXPECT_THAT(backward({1, 2}), AllOf(HasSubstr("not counted in order"), HasSubstr("batch 1 of 2"),
                                      HasSubstr("expected: micro-batch 0 of the step")));
  EXPECT_EQ(backward({0, 3}), "no error");
  EXPECT_THAT(backward({0, 3}), HasSubstr("expected: micro-batch 1 of the step"));
  EXPECT_THAT(backward({1, 2}), HasSubstr("expected: of 3, as those before"));
  ddp.drop_gradients();
  EXPECT_EQ(backward({0, 1}), "no error");
}

TEST_F(OwnLoop, ABackwardAfterTheLastOneOfAStepIsRefused) {
  const auto backward = [&] { ddp.backward(ddp.forward([&] { return loss(); })); };
  backward();
  EXPECT_THAT(test::error_of(backward), HasSubstr("a backward came after the one that synchron"));
  ddp.drop_gradients();
  backward();
  ddp.step(0.1, 0);
  backward();
}

TEST_F(OwnLoop, NothingGoesOnAfterAnExceptionInBackward) {
  const Loss failing = ddp.forward([&] {
    const at::Tensor y = weight * 2;
    y.register_hook([](const at::Tensor&) { throw std::runtime_error("a bad batch"); });
    return y.sum();
  });
  EXPECT_THAT(test::error_of<std::exception>([&] { ddp.backward(failing); }),
              HasSubstr("a bad batch"));
  ddp.drop_gradients();
  EXPECT_THAT(test::error_of([&] { ddp.backward(ddp.forward([&] { return loss(); })); }),
              HasSubstr("training went on after an exception"));
}

TEST_F(OwnLoop, ABufferInAnotherDtypeIsExplained) {
  test::PrecisionOf in_bfloat16 = test::in_bfloat16();
  at::Tensor other = at::ones({3}).requires_grad_();
  DataParallel of_other({{"other", other}}, *group, another, in_bfloat16, test::plain_sgd());
  EXPECT_THAT(test::error_of([&] {
                of_other.forward([&] {
                  at::Tensor mean = at::zeros({3}), variance = at::ones({3});
                  return at::batch_norm(at::ones({2, 3}, at::kBFloat16), other, other, mean,
                                        variance, true, 0.1, 1e-5, false)
                      .sum();
                });
              }),
              AllOf(HasSubstr("different dtypes"), HasSubstr("and buffers")));
}

/// Clips nowhere.
struct Unclipped : test::Alone {
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (run.optimizer.clip_norm == 0.0) return {};
    return Refusal{.reason = "it clips nothing", .expected = "optimizer.clip_norm 0"};
  }
};

TEST_F(OwnLoop, AStrategyIsAskedBeforeAStepClips) {
  at::Tensor other = at::ones({3}).requires_grad_();
  Unclipped unclipped;
  DataParallel of_other({{"other", other}}, *group, unclipped, test::fp32(), test::plain_sgd());
  const auto step = [&](double clip_norm) {
    of_other.backward(of_other.forward([&] { return other.sum(); }));
    of_other.step(0.1, clip_norm);
  };
  step(0);
  EXPECT_THAT(test::error_of([&] { step(1); }), HasSubstr("it clips nothing"));
}

TEST_F(OwnLoop, AWriteToAParameterCountsWhereItIsWhatIsUpdated) {
  const auto forward = [&] { ddp.forward([&] { return loss(); }); };
  {
    const at::NoGradGuard no_gradients;
    weight.fill_(3);
  }
  forward();
  EXPECT_EQ(ddp.buffers().parameters(ddp.buffers().all()).max().item<float>(), 3);
}

TEST_F(OwnLoop, AParameterThatLiesElsewhereIsRefused) {
  weight.set_data(at::full({3}, 5.0F));  // as torch::load() and Module::to() do
  EXPECT_THAT(test::error_of([&] { ddp.forward([&] { return loss(); }); }),
              AllOf(HasSubstr("no longer where DataParallel updates it"),
                    HasSubstr("other memory behind weight")));
}

TEST_F(OwnLoop, ASecondDataParallelOfOneModelIsFound) {
  const DataParallel second({{"weight", weight}}, *group, another, test::fp32(), test::plain_sgd());
  EXPECT_THAT(test::error_of([&] { ddp.forward([&] { return loss(); }); }),
              HasSubstr("no longer where DataParallel updates it"));
}

TEST_F(OwnLoop, WhatIsTrainedStaysWhatItIs) {
  at::Tensor frozen = at::ones({3}), trained = at::ones({3}).requires_grad_();
  DataParallel partly({{"frozen", frozen}, {"trained", trained}}, *group, another, test::fp32(),
                      test::plain_sgd());
  const auto forward = [&] {
    return test::error_of([&] { partly.forward([&] { return (frozen * trained).sum(); }); });
  };
  frozen.requires_grad_(true);
  EXPECT_THAT(forward(), AllOf(HasSubstr("requires_grad of a parameter was changed"),
                               HasSubstr("frozen, which requires one now")));
  frozen.requires_grad_(false);
  EXPECT_EQ(forward(), "no error");
  trained.requires_grad_(false);
  EXPECT_THAT(forward(), HasSubstr("trained, which requires none now"));
}

// Before the step's last backward it adds up, as without DataParallel.
TEST_F(OwnLoop, ABackwardBesideDataParallelsIsRefusedOnceGradientsAreMeans) {
  loss().backward();
  ddp.backward(ddp.forward([&] { return loss(); }));
  EXPECT_TRUE(at::equal(weight.grad(), at::full({3}, 8.0F)));
  EXPECT_THAT(test::error_of([&] { loss().backward(); }),
              AllOf(HasSubstr("a backward that DataParallel did not run"),
                    HasSubstr("a gradient of weight")));
}

TEST_F(OwnLoop, ASparseGradientIsRefused) {
  at::Tensor table = at::ones({4, 2}).requires_grad_();
  DataParallel of_table({{"table", table}}, *group, another, test::fp32(), test::plain_sgd());
  const Loss sparse = of_table.forward([&] {
    return at::embedding(table, at::zeros({3}, at::kLong), -1, false, /*sparse=*/true).sum();
  });
  EXPECT_THAT(test::error_of([&] { of_table.backward(sparse); }),
              AllOf(HasSubstr("a gradient is sparse"), HasSubstr("the gradient of table")));
}

// As reentrant activation checkpointing makes it: a backward within backward.
TEST_F(OwnLoop, ASecondGradientInOneBackwardIsRefused) {
  const Loss twice = ddp.forward([&] {
    const at::Tensor y = weight * 2;
    y.register_hook([&](const at::Tensor&) {
      const c10::AutoGradMode gradients(true);
      loss().backward();
    });
    return y.sum();
  });
  EXPECT_THAT(test::error_of([&] { ddp.backward(twice); }),
              AllOf(HasSubstr("two gradients in one backward"), HasSubstr("one of weight")));
}

TEST_F(OwnLoop, AStrategyBelongsToOneDataParallel) {
  at::Tensor other = at::ones({3}).requires_grad_();
  EXPECT_THAT(test::error_of([&] {
                DataParallel({{"other", other}}, *group, strategy, test::fp32(), test::plain_sgd());
              }),
              HasSubstr("a strategy was given to a second DataParallel"));
}

/// What a program writes beside step(), and what it is told of it where that would be wrong.
struct OwnWrite {
  const char* strategy;
  const char* clipping;  // of the gradients
  const char* update;    // of the parameters
  bool old_after_step;   // what the model's tensors are
};

class OwnWrites : public testing::TestWithParam<OwnWrite> {
 protected:
  /// Two steps by `end`, which ends a step.
  static std::string error_of_steps(
      const std::function<void(DataParallel& ddp, const at::Tensor& weight)>& end) {
    return test::of_ranks(2, [&](ProcessGroup& group) {
      const at::Tensor weight = at::arange(1, 65, at::kFloat).view({8, 8}).requires_grad_();
      const auto strategy = test::strategy_of(GetParam().strategy);
      DataParallel ddp({{"weight", weight}}, group, *strategy, test::fp32(), test::plain_sgd());
      return test::error_of<std::exception>([&] {
        for (int step = 0; step < 2; ++step) {
          ddp.backward(ddp.forward([&] { return (weight * weight).sum(); }));
          end(ddp, weight);
        }
      });
    })[0];
  }
};

// As torch::nn::utils::clip_grad_norm_() and torch::optim::SGD write: past version counters.
TEST_P(OwnWrites, AreRefusedWhereTheyAreWrong) {
  for (const int row : {0, 4}) {  // from the first on, or from the middle
    EXPECT_THAT(error_of_steps([row](DataParallel& ddp, const at::Tensor& weight) {
                  weight.grad().variable_data().narrow(0, row, 8 - row).mul_(0.5);
                  ddp.step(0.1, 0);
                }),
                HasSubstr(GetParam().clipping));
  }
  EXPECT_THAT(error_of_steps([](DataParallel& ddp, const at::Tensor& weight) {
                weight.variable_data().sub_(weight.grad().variable_data(), 0.1);
                ddp.drop_gradients();
              }),
              HasSubstr(GetParam().update));
}

TEST_P(OwnWrites, ParametersThatAreOldAreSeenToBe) {
  EXPECT_EQ(error_of_steps([](DataParallel& ddp, const at::Tensor& weight) {
              ddp.step(0.1, 0);
              EXPECT_EQ(weight.isnan().any().item<bool>(), GetParam().old_after_step);
              EXPECT_FALSE(ddp.evaluate([&] { return weight.sum(); }).isnan().item<bool>());
            }),
            "no error");
}

constexpr const char* kClipped = "a gradient was written that is no gradient of the step";
constexpr const char* kUpdated = "a parameter was updated where the value is lost";
constexpr const char* kUnwritable = "more than one element of the written-to tensor";
const OwnWrite kOwnWrites[] = {
    {"{name: flat}", "no error", "no error", false},
    {"{name: zero1}", kClipped, kUpdated, false},
    {"{name: zero1, gather_under_forward: true}", kClipped, kUpdated, true},
    {"{name: zero2}", kUnwritable, kUpdated, false},
    {"{name: fsdp}", kUnwritable, kUpdated, true},
    {"{name: fsdp, reshard_after_forward: false}", kUnwritable, kUpdated, true},
};
INSTANTIATE_TEST_SUITE_P(Strategies, OwnWrites, testing::ValuesIn(kOwnWrites));

/// Parameters a and b, (2, 3), by what rank 1 does otherwise.
struct OtherModel {
  const char* name;
  std::function<void(std::vector<NamedTensor>& parameters)> change;
  const char* got;
  const char* expected;
};

class RanksModels : public testing::TestWithParam<OtherModel> {};

TEST_P(RanksModels, AreHeldAgainstEachOther) {
  test::run_ranks(2, [](ProcessGroup& group) {
    std::vector<NamedTensor> parameters;
    for (const char* name : {"a", "b"}) {
      parameters.push_back({name, at::ones({2, 3}).requires_grad_()});
    }
    if (group.rank() == 1) GetParam().change(parameters);
    test::Alone strategy;
    EXPECT_THAT(test::error_of([&] {
                  DataParallel(parameters, group, strategy, test::fp32(), test::plain_sgd());
                }),
                AllOf(HasSubstr("the ranks' models are not the same"), HasSubstr(GetParam().got),
                      HasSubstr(GetParam().expected)))
        << "on rank " << group.rank();
  });
}

const OtherModel kOtherModels[] = {
    {"order", [](auto& all) { std::swap(all[0], all[1]); }, "on rank 1: b, Float [2, 3]",
     "as on rank 0: a, Float [2, 3]"},
    {"shape",
     [](auto& all) {
       all[1].tensor = at::ones({3, 2}).requires_grad_();
     },
     "on rank 1: b, Float [3, 2]", "as on rank 0: b, Float [2, 3]"},
    {"strides",
     [](auto& all) {
       all[1].tensor = at::ones({3, 2}).t().requires_grad_();
     },
     "b, Float [2, 3] with strides [1, 2]", "as on rank 0: b, Float [2, 3]"},
    {"frozen", [](auto& all) { all[0].tensor.requires_grad_(false); }, "a, Float [2, 3], frozen",
     "as on rank 0: a, Float [2, 3]"},
    {"tied", [](auto& all) { all[1].tensor = all[0].tensor; }, "b, Float [2, 3], tied to a",
     "as on rank 0: b, Float [2, 3]"},
    {"fewer", [](auto& all) { all.pop_back(); }, "on rank 1: no parameter more",
     "as on rank 0: b, Float [2, 3]"},
    {"dtype",
     [](auto& all) {
       all[1].tensor = at::ones({2, 3}, at::kDouble).requires_grad_();
     },
     "on rank 1: b, Double [2, 3]", "as on rank 0: b, Float [2, 3]"},
};
INSTANTIATE_TEST_SUITE_P(Differ, RanksModels, testing::ValuesIn(kOtherModels),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ddprun::own_loop_test
