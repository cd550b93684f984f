// Models that name their units, in loops that are not ddprun's own: what strategies that hold units
// make of them.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/whole_buffers.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun::units_test {
namespace {

constexpr int kUnits = 4;

/// Products by square matrices, each a unit, with tanh.
struct Model {
  Model() {
    for (int i = 0; i < kUnits; ++i) {
      const at::Tensor values = at::arange(16, at::kFloat).view({4, 4}).mul(0.7 + i).sin();
      weights.push_back({.name = "w" + std::to_string(i),
                         .tensor = values.requires_grad_(),
                         .unit = "unit " + std::to_string(i)});
    }
  }

  at::Tensor unit(DataParallel& ddp, int i, const at::Tensor& x) const {
    return ddp.unit(i, [&] { return at::tanh(at::matmul(x, weights[i].tensor)); });
  }

  at::Tensor forward(DataParallel& ddp, at::Tensor x) const {
    for (int i = 0; i < std::ssize(weights); ++i) x = unit(ddp, i, x);
    return x;
  }

  std::vector<NamedTensor> weights;
};

at::Tensor input_of(const ProcessGroup& group, double number) {
  return at::arange(8, at::kFloat).view({2, 4}).add(number + group.rank()).cos();
}

using Step = std::function<void(const Model& model, DataParallel& ddp, const ProcessGroup& group)>;

/// The parameters after three steps of two ranks.
std::vector<NamedTensor> trained(const std::string& strategy_yaml, const Step& backward) {
  return test::of_ranks(2, [&](ProcessGroup& group) {
    const Model model;
    const auto strategy = test::strategy_of(strategy_yaml);
    DataParallel ddp(model.weights, group, *strategy, test::fp32(), test::plain_sgd());
    for (int step = 0; step < 3; ++step) {
      backward(model, ddp, group);
      ddp.step(0.1, 0.0);
    }
    return full_parameters(ddp);
  })[0];
}

/// One for two inputs, whose backward comes to each unit twice.
void backward_of_pair(const Model& model, DataParallel& ddp, const ProcessGroup& group) {
  ddp.backward(ddp.forward([&] {
    const at::Tensor first = model.forward(ddp, input_of(group, 0));
    return (first - model.forward(ddp, input_of(group, 5)) - 1).square().mean();
  }));
}

/// Both forwards of a step come before its backwards.
void backward_of_two(const Model& model, DataParallel& ddp, const ProcessGroup& group) {
  std::vector<Loss> losses;
  for (const int i : {0, 1}) {
    losses.push_back(ddp.forward(
        [&] { return model.forward(ddp, input_of(group, 5 * i)).square().mean(); }, {i, 2}));
  }
  for (const Loss& loss : losses) ddp.backward(loss);
}

/// With the gradient by the input in the loss, as WGAN-GP has it.
void backward_of_penalty(const Model& model, DataParallel& ddp, const ProcessGroup& group) {
  ddp.backward(ddp.forward([&] {
    const at::Tensor x = input_of(group, 0).requires_grad_();
    const at::Tensor y = model.forward(ddp, x).square().mean();
    const auto by_x = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true,
                                            /*create_graph=*/true);
    return y + by_x[0].square().sum();
  }));
}

/// The model is evaluated before the step, which moves units to other places.
void backward_then_evaluate(const Model& model, DataParallel& ddp, const ProcessGroup& group) {
  const auto loss = [&] { return model.forward(ddp, input_of(group, 0)).square().mean(); };
  ddp.backward(ddp.forward(loss));
  ddp.evaluate(loss);
}

/// Unit 2 reads what is unit 0's, too.
void backward_of_shared(const Model& model, DataParallel& ddp, const ProcessGroup& group) {
  ddp.backward(ddp.forward([&] {
    at::Tensor x = model.unit(ddp, 1, model.unit(ddp, 0, input_of(group, 0)));
    x = ddp.unit(2, [&] {
      return at::matmul(at::matmul(x, model.weights[2].tensor), model.weights[0].tensor);
    });
    return model.unit(ddp, 3, x).square().mean();
  }));
}

struct Case {
  const char* name;
  const char* strategy;
  Step backward;
};

class Units : public testing::TestWithParam<Case> {};

TEST_P(Units, TrainAsWhereEverythingIsWhole) {
  const auto expected = trained("{name: flat}", GetParam().backward);
  const auto got = trained(GetParam().strategy, GetParam().backward);
  const Model before;
  for (int i = 0; i < kUnits; ++i) {
    const auto difference = (got[i].tensor - expected[i].tensor).abs().max().item<double>();
    EXPECT_LE(difference, 1e-6) << got[i].name;
    EXPECT_FALSE(at::allclose(expected[i].tensor, before.weights[i].tensor)) << got[i].name;
  }
}

const Case kCases[] = {
    {"zero2_pair", "{name: zero2}", backward_of_pair},
    {"zero2_two", "{name: zero2}", backward_of_two},
    {"zero2_penalty", "{name: zero2}", backward_of_penalty},
    {"zero1_shared", "{name: zero1, gather_under_forward: true}", backward_of_shared},
    {"zero2_shared", "{name: zero2}", backward_of_shared},
    {"fsdp_pair", "{name: fsdp}", backward_of_pair},
    {"fsdp_two", "{name: fsdp}", backward_of_two},
    {"fsdp_evaluated", "{name: fsdp}", backward_then_evaluate},
    {"fsdp_keep_pair", "{name: fsdp, reshard_after_forward: false}", backward_of_pair},
    {"fsdp_keep_two", "{name: fsdp, reshard_after_forward: false}", backward_of_two},
    {"fsdp_keep_shared", "{name: fsdp, reshard_after_forward: false}", backward_of_shared},
    {"fsdp_keep_penalty", "{name: fsdp, reshard_after_forward: false}", backward_of_penalty},
};
INSTANTIATE_TEST_SUITE_P(Strategies, Units, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// What rank 0 is told.
std::string refused(const Step& backward, const std::string& strategy_yaml = "{name: fsdp}",
                    int units = kUnits) {
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Model model;
    model.weights.resize(units);
    const auto strategy = test::strategy_of(strategy_yaml);
    DataParallel ddp(model.weights, group, *strategy, test::fp32(), test::plain_sgd());
    return test::error_of([&] { backward(model, ddp, group); });
  })[0];
}

TEST(UnitsRefused, SecondDerivativesOfWhatIsGatheredToBeUsed) {
  EXPECT_THAT(refused(backward_of_penalty), HasSubstr("second derivatives need parameters that"));
}

TEST(UnitsRefused, OutOfOrder) {
  const auto forward = [](std::vector<int> units) {
    return refused([=](const Model& model, DataParallel& ddp, const ProcessGroup& group) {
      ddp.forward([&] {
        at::Tensor x = input_of(group, 0);
        for (const int i : units) x = model.unit(ddp, i, x);
        return x.sum();
      });
    });
  };
  EXPECT_THAT(forward({0, 2}), AllOf(HasSubstr("units came out of order"), HasSubstr("got: unit 2"),
                                     HasSubstr("expected: unit 1 of 4")));
  EXPECT_THAT(forward({0, 1, 2, 3, 3}), HasSubstr("expected: no unit after 3, or unit 0"));
  EXPECT_THAT(forward({-1}), HasSubstr("got: unit -1"));
}

// Unit 3 reads what is unit 1's, whose gradients have the same place.
TEST(UnitsRefused, AGradientThatComesBeforeThoseInItsPlaceAreSent) {
  const auto backward = [](const Model& model, DataParallel& ddp, const ProcessGroup& group) {
    ddp.backward(ddp.forward([&] {
      at::Tensor x = model.unit(ddp, 0, input_of(group, 0));
      x = model.unit(ddp, 2, ddp.unit(1, [&] { return x; }));
      return ddp
          .unit(3,
                [&] {
                  return at::matmul(at::matmul(x, model.weights[3].tensor),
                                    model.weights[1].tensor);
                })
          .sum();
    }));
  };
  EXPECT_THAT(refused(backward, "{name: zero2}"),
              AllOf(HasSubstr("in another order than that of the model's units"),
                    HasSubstr("got: that of w1 before those of unit unit 3")));
}

TEST(UnitsRefused, AParameterThatIsReadWhereItIsNotGathered) {
  EXPECT_THAT(refused(backward_of_shared),
              AllOf(HasSubstr("reads a parameter outside its unit"),
                    HasSubstr("got: w0 of unit 'unit 0', read elsewhere by MmBackward0")));
  const auto behind = [](const Model& model, DataParallel& ddp, const ProcessGroup& group) {
    ddp.forward([&] {
      return at::matmul(model.forward(ddp, input_of(group, 0)), model.weights[3].tensor).sum();
    });
  };
  EXPECT_THAT(refused(behind), HasSubstr("got: w3 of unit 'unit 3', read elsewhere"));
  const auto ahead = [](const Model& model, DataParallel& ddp, const ProcessGroup& group) {
    ddp.forward([&] {
      return model.forward(ddp, at::matmul(input_of(group, 0), model.weights[3].tensor)).sum();
    });
  };
  for (const char* const strategy : {"{name: fsdp, reshard_after_forward: false}",
                                     "{name: zero1, gather_under_forward: true}"}) {
    EXPECT_EQ(refused(behind, strategy), "no error");
    EXPECT_THAT(refused(ahead, strategy), HasSubstr("got: w3 of unit 'unit 3', read elsewhere"));
  }
}

/// The value of a model whose first unit reads its parameters again behind the others.
at::Tensor nested(const Model& model, DataParallel& ddp) {
  return ddp.unit(0, [&] {
    at::Tensor x = at::ones({2, 4});
    for (int i = 1; i < std::ssize(model.weights); ++i) x = model.unit(ddp, i, x);
    return at::matmul(x, model.weights[0].tensor).sum();
  });
}

TEST(UnitsRefused, WithinAnotherWhereAThirdTakesItsPlace) {
  const auto evaluate = [](const Model& model, DataParallel& ddp, const ProcessGroup&) {
    ddp.evaluate([&] { return nested(model, ddp); });
  };
  for (const int units : {3, 4}) {
    EXPECT_THAT(refused(evaluate, "{name: fsdp}", units),
                AllOf(HasSubstr("a unit was computed within another one"),
                      HasSubstr("got: unit 1 within unit 0")));
  }
  EXPECT_EQ(refused(evaluate, "{name: fsdp}", 2), "no error");
}

/// A model of one unit need not name it.
TEST(UnitsWatched, ASingleOneBeforeItIsRead) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor weight = at::ones({4}).requires_grad_();
    const auto strategy = test::strategy_of("{name: fsdp}");
    DataParallel ddp({{"w", weight}}, group, *strategy, test::fp32(), test::plain_sgd());
    std::vector<int> read;
    ddp.watch_gradients([&](DataParallel::Watched what, int index) {
      if (what == DataParallel::Watched::unit) read.push_back(index);
    });
    ddp.backward(ddp.forward([&] { return weight.square().sum(); }));
    EXPECT_THAT(read, ElementsAre(0));
  });
}

/// Plans as another one, and does not listen.
struct Deaf final : Strategy {
  explicit Deaf(const std::string& strategy_yaml) : other(test::strategy_of(strategy_yaml)) {}
  Plan plan(const ParameterLayout& layout, int rank) const override {
    return other->plan(layout, rank);
  }
  void finish_backward() override {}
  std::shared_ptr<Strategy> other;
};

TEST(UnitsRefused, OfAStrategyThatNeedsThemAndDoesNotListen) {
  for (const char* const strategy :
       {"{name: fsdp}", "{name: zero2}", "{name: zero1, gather_under_forward: true}"}) {
    test::run_ranks(2, [&](ProcessGroup& group) {
      const Model model;
      Deaf deaf(strategy);
      EXPECT_THAT(test::error_of([&] {
                    DataParallel ddp(model.weights, group, deaf, test::fp32(), test::plain_sgd());
                    backward_of_pair(model, ddp, group);
                    ddp.step(0.1, 0.0);
                  }),
                  AllOf(HasSubstr("it does not listen"), HasSubstr("listen(context, *this)")));
    });
  }
}

TEST(UnitsRefused, NotAfterAPartThatThrew) {
  const auto throws = []() -> at::Tensor { throw std::runtime_error("the model's"); };
  const auto evaluate = [&](const Model& model, DataParallel& ddp, const ProcessGroup& group) {
    EXPECT_THROW(ddp.forward_again(throws), std::runtime_error);
    ddp.evaluate([&] {
      EXPECT_THROW(ddp.unit(0, throws), std::runtime_error);
      return model.forward(ddp, input_of(group, 0)).sum();
    });
  };
  EXPECT_EQ(refused(evaluate), "no error");
}

}  // namespace
}  // namespace ddprun::units_test
