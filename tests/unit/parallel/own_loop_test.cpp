// What a training loop of one's own can do wrong, and what it is told.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "ddprun/parallel/data_parallel.h"
#include "support/error_of.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/thread_ranks.h"

namespace ddprun::own_loop_test {
namespace {

/// One rank has its mean.
struct Alone : Strategy {
  void finish_backward() override {}
};

class OwnLoop : public testing::Test {
 protected:
  at::Tensor loss() const { return (weight * weight).sum(); }

  at::Tensor weight = at::full({3}, 2.0F).requires_grad_();
  std::unique_ptr<ProcessGroup> group = connect_thread(make_thread_store(), 0, 1, {});
  Alone strategy;
  Precision precision;
  DataParallel ddp{{{"weight", weight}}, *group, strategy, precision, test::plain_sgd()};
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
  const Loss half = ddp.forward([&] { return loss(); }, {0, 2});
  ddp.backward(half);
  EXPECT_THAT(test::error_of([&] { ddp.backward(half); }),
              HasSubstr("backward ran twice for one loss"));
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

TEST_F(OwnLoop, AWriteToAParameterCountsWhereItIsWhatIsUpdated) {
  const auto forward = [&] { ddp.forward([&] { return loss(); }); };
  {
    const at::NoGradGuard no_gradients;
    weight.fill_(3);
  }
  forward();
  EXPECT_EQ(ddp.buffers().parameters(ddp.buffers().all()).max().item<float>(), 3);
}

}  // namespace
}  // namespace ddprun::own_loop_test
