// Ranks whose programs do not tell DataParallel the same, which no collective need show.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun::ranks_alike_test {
namespace {

/// One step, as rank 1 makes it otherwise.
struct Told {
  std::int64_t micro_batches = 2;
  double lr = 0.1;
  double clip_norm = 1;
  bool drop = false;
};

/// What both ranks are told of five steps of which rank 1 makes step `at` otherwise, and of
/// check_parameters_equal() after them.
std::string error_of(const std::string& strategy_yaml, const Told& other, int at,
                     const CommConfig& config = {.timeout_s = 30}) {
  std::string errors[2];
  const auto rank = [&](ProcessGroup& group) {
    const at::Tensor weight = at::arange(1, 65, at::kFloat).view({8, 8}).requires_grad_();
    const auto strategy = test::strategy_of(strategy_yaml);
    DataParallel ddp({{"weight", weight}}, group, *strategy, test::fp32(), test::plain_sgd());
    for (int step = 0; step < 5; ++step) {
      const Told told = group.rank() == 1 && step == at ? other : Told();
      for (std::int64_t i = 0; i < told.micro_batches; ++i) {
        ddp.backward(ddp.forward([&] { return weight.square().mean(); }, {i, told.micro_batches}));
      }
      if (told.drop) {
        ddp.drop_gradients();
      } else {
        ddp.step(told.lr, told.clip_norm);
      }
    }
    check_parameters_equal(ddp, group);
  };
  test::run_ranks(
      2,
      [&](ProcessGroup& group) {
        std::string& error = errors[group.rank()];
        error = test::error_of([&] { rank(group); });
        if (error != "no error") group.all_gather_object("both have thrown");
      },
      config);
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

struct OtherStep {
  const char* name;
  Told told;
  const char* got;
};

class RanksSteps : public testing::TestWithParam<std::tuple<const char*, OtherStep>> {};

TEST_P(RanksSteps, AreHeldAgainstEachOther) {
  const auto& [strategy, other] = GetParam();
  for (const int at : {0, 2, 4}) {
    const std::string step = "step " + std::to_string(at);
    EXPECT_THAT(error_of(strategy, other.told, at),
                AllOf(HasSubstr("the ranks were told different steps"),
                      HasSubstr("got: on rank 1: " + step + other.got),
                      HasSubstr("expected: as on rank 0: " + step + " of 2 micro-batches")));
  }
}

const OtherStep kOtherSteps[] = {
    {"micro_batches", {.micro_batches = 3}, " of 3 micro-batches"},
    {"lr", {.lr = 0.2}, " of 2 micro-batches, lr 0.2, clip_norm 1"},
    {"clip_norm", {.clip_norm = 0.5}, " of 2 micro-batches, lr 0.1, clip_norm 0.5"},
};
INSTANTIATE_TEST_SUITE_P(Told, RanksSteps,
                         testing::Combine(testing::Values("{name: flat}", "{name: zero1}",
                                                          "{name: zero2}", "{name: fsdp}"),
                                          testing::ValuesIn(kOtherSteps)),
                         [](const auto& info) {
                           return "strategy_" +
                                  std::to_string(info.index / std::size(kOtherSteps)) + "_" +
                                  std::get<1>(info.param).name;
                         });

TEST(RanksSteps, ThatOneDropsAreFound) {
  EXPECT_THAT(error_of("{name: flat}", {.drop = true}, 3),
              HasSubstr("got: on rank 1: step 3 of 2 micro-batches, drop_gradients()"));
}

TEST(RanksSteps, OfALongTrainingAreHeldAgainstEachOtherAsItGoesOn) {
  test::run_ranks(2, [](ProcessGroup& group) {
    StepsAlike steps(group, /*each_exchanges=*/false);
    const auto make = [&](int from, int to) {
      for (int step = from; step < to; ++step) {
        steps.backward_done({0, 1});
        steps.end(step == 1500 && group.rank() == 1 ? 0.2 : 0.1, 0);
      }
    };
    make(0, 2048);
    EXPECT_THAT(test::error_of([&] { make(2048, 2049); }),
                HasSubstr("on rank 1: step 1500 of 1 micro-batch, lr 0.2"));
  });
}

/// A rank that says of each step how many micro-batches it has.
class CountingRank {
 public:
  CountingRank(ProcessGroup& group, const std::string& strategy)
      : strategy_(test::strategy_of(strategy)),
        ddp_({{"weight", weight_}}, group, *strategy_, precision_, test::plain_sgd()) {}

  /// Of `count` micro-batches, of which the first `made` are made.
  void step(std::int64_t count, std::int64_t made) {
    for (std::int64_t i = 0; i < made; ++i) {
      ddp_.backward(ddp_.forward([&] { return weight_.sum(); }, {i, count}));
    }
    ddp_.drop_gradients();
  }

 private:
  const at::Tensor weight_ = at::ones({8, 8}).requires_grad_();
  const std::shared_ptr<Strategy> strategy_;
  Precision precision_;
  DataParallel ddp_;
};

// Between the steps at which all compare, a rank that counts otherwise says so before collectives
// of its second micro-batch meet others.
TEST(RanksSteps, OfMoreMicroBatchesWaitWhereEachHasCollectives) {
  std::string error;
  std::atomic<bool> done = false;
  const auto rank = [&](ProcessGroup& group) {
    CountingRank counting(group, "{name: fsdp}");
    for (int i = 0; i < 3; ++i) counting.step(2, 1);
    if (group.rank() == 0) {
      counting.step(2, 1);
      while (!done) std::this_thread::yield();
      return;
    }
    error = test::error_of([&] { counting.step(3, 1); });
    done = true;
  };
  test::run_ranks(2, rank, {.timeout_s = 1});
  EXPECT_THAT(error,
              AllOf(HasSubstr("not all ranks came"),
                    HasSubstr("all ranks in step 3 of 3 micro-batches, where the step before had "
                              "2")));
}

// Who counts as before waits within its second micro-batch, and cannot know for what.
TEST(RanksSteps, OfMoreMicroBatchesSendOthersToWhoCountsOtherwise) {
  std::string errors[2];
  std::atomic<int> thrown = 0;
  const auto rank = [&](ProcessGroup& group) {
    CountingRank counting(group, "{name: zero2}");
    for (int i = 0; i < 3; ++i) counting.step(2, 2);
    const int last = 2 + group.rank();
    errors[group.rank()] = test::error_of([&] { counting.step(last, last); });
    for (++thrown; thrown < 2;) std::this_thread::yield();
  };
  EXPECT_THAT(test::error_of([&] {
                test::run_ranks(2, rank, {.backend = BackendKind::gloo, .timeout_s = 1});
              }),
              AnyOf("no error", HasSubstr("barrier 'shutdown'")))
      << "gloo's connections are closed";
  EXPECT_THAT(errors[0], AllOf(HasSubstr("a collective failed"),
                               HasSubstr("see the messages of the other ranks")));
  EXPECT_THAT(errors[1], HasSubstr("where the step before had 2"));
}

/// What rank 1 is given otherwise.
struct OtherChoice {
  const char* name;
  const char* strategy;
  std::function<void(OptimizerConfig& optimizer)> change;
  const char* got;
  const char* expected;
  const char* of_first = "{name: zero1}";  ///< rank 0's strategy
};

std::string refusal_of(const at::Tensor& weight, ProcessGroup& group, Strategy& strategy,
                       const OptimizerConfig& optimizer = {}) {
  return test::error_of([&] {
    DataParallel({{"weight", weight}}, group, strategy, test::fp32(), optimizer);
  });
}

class RanksChoices : public testing::TestWithParam<OtherChoice> {};

TEST_P(RanksChoices, AreHeldAgainstEachOther) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor weight = at::ones({8, 8}).requires_grad_();
    OptimizerConfig optimizer;
    const bool other = group.rank() == 1;
    if (other) GetParam().change(optimizer);
    const auto strategy = test::strategy_of(other ? GetParam().strategy : GetParam().of_first);
    EXPECT_THAT(refusal_of(weight, group, *strategy, optimizer),
                AllOf(HasSubstr("different plugins, options or optimizers"),
                      HasSubstr(GetParam().got), HasSubstr(GetParam().expected)))
        << "on rank " << group.rank();
  });
}

const OtherChoice kOtherChoices[] = {
    {"strategy", "{name: flat}", [](auto&) {}, "got: on rank 1: strategy flat",
     "expected: as on rank 0: strategy zero1"},
    {"options", "{name: zero1, gather_under_forward: true}", [](auto&) {},
     "got: on rank 1: strategy zero1 {bucket_mb: 0, gather_under_forward: true}",
     "expected: as on rank 0: strategy zero1 {bucket_mb: 0, gather_under_forward: false}"},
    {"options_of_no_plan", "{name: local_sgd, every: 8}", [](auto&) {},
     "got: on rank 1: strategy local_sgd {every: 8, ",
     "expected: as on rank 0: strategy local_sgd {every: 4, ", "{name: local_sgd, every: 4}"},
    {"optimizer", "{name: zero1}", [](auto& optimizer) { optimizer.weight_decay = 0; },
     "weight_decay 0, ", "weight_decay 0.1, "},
    {"groups", "{name: zero1}",
     [](auto& optimizer) { optimizer.groups = {{.match = "w*", .weight_decay = 0.5}}; },
     "; of w*: lr_scale 1, weight_decay 0.5", "momentum 0"},
    {"lr_scale", "{name: zero1}",
     [](auto& optimizer) { optimizer.groups = {{.match = "w*", .lr_scale = 2}}; },
     "; of w*: lr_scale 2, weight_decay 0.1", "momentum 0"},
    {"betas", "{name: zero1}", [](auto& optimizer) { optimizer.betas[1] = 0.99; },
     "of betas 0.9 and 0.99, ", "of betas 0.9 and 0.95, "},
    {"eps", "{name: zero1}", [](auto& optimizer) { optimizer.eps = 1e-6; }, "eps 1e-06, ",
     "eps 1e-08, "},
    {"momentum", "{name: zero1}", [](auto& optimizer) { optimizer.momentum = 0.5; }, "momentum 0.5",
     "momentum 0"},
    {"overlap", "{name: zero1}", [](auto& optimizer) { optimizer.overlap = true; },
     "momentum 0, overlap", "momentum 0"},
};
INSTANTIATE_TEST_SUITE_P(Differ, RanksChoices, testing::ValuesIn(kOtherChoices),
                         [](const auto& info) { return info.param.name; });

/// A class of the program's own, whose options nobody knows.
class Planned final : public Strategy {
 public:
  Planned(std::int64_t bytes, PlannedIn in) : bytes_(bytes), in_(in) {}
  Plan plan(const ParameterLayout&, int) const override {
    return {.collectives = {{CollectiveKind::all_reduce, bytes_, in_}}};
  }
  void finish_backward() override {}

 private:
  std::int64_t bytes_;
  PlannedIn in_;
};

TEST(RanksChoices, PlansAreHeldAgainstEachOther) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const bool other = group.rank() == 1;
    Planned more(other ? 512 : 256, PlannedIn::step);
    EXPECT_THAT(refusal_of(at::ones({8, 8}).requires_grad_(), group, more),
                AllOf(HasSubstr("got: on rank 1: a plan with all_reduce of 512 bytes"),
                      HasSubstr("expected: as on rank 0: a plan with all_reduce of 256 bytes")));
    Planned later(256, other ? PlannedIn::update : PlannedIn::step);
    EXPECT_THAT(refusal_of(at::ones({8, 8}).requires_grad_(), group, later),
                HasSubstr("got: on rank 1: a plan with all_reduce of 256 bytes in update()"));
  });
}

}  // namespace
}  // namespace ddprun::ranks_alike_test
