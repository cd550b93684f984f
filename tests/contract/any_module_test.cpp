// Strategies work on any torch::nn::Module: biases, odd sizes, a training loop of the user's own.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ddprun/config/plugin_choice.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/plugin/run_description.h"
#include "plugins_under_test.h"
#include "support/plain_sgd.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

constexpr int kSteps = 10;
constexpr int kBatch = 12;

struct OddModule : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return second(norm(at::relu(first(x)))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(5, 11));
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({11})));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(11, 3));
};

std::shared_ptr<OddModule> make_module() {
  auto module = std::make_shared<OddModule>();
  const at::NoGradGuard no_grad;
  int index = 0;
  for (auto& parameter :
       module->parameters()) {  // the same on every rank, without a global generator
    const auto count = static_cast<float>(parameter.numel());
    parameter.copy_((at::arange(parameter.numel()).view(parameter.sizes()) * 7 + ++index)
                        .remainder(13)
                        .div(count)
                        .sub(0.3));
  }
  return module;
}

OptimizerConfig sgd() {
  OptimizerConfig config = test::plain_sgd();
  config.lr = 0.1;
  return config;
}

struct Trained {
  std::vector<at::Tensor> parameters;
  bool exact = true;  ///< the strategy says that gradients become their mean
};

/// The user's own loop.
Trained train(ProcessGroup& group, Strategy& strategy) {
  const auto module = make_module();
  Precision fp32;
  DataParallel ddp(named_parameters(*module), group, strategy, fp32, sgd());
  const auto inputs = at::arange(kBatch * 5).view({kBatch, 5}).mul(0.37).sin();
  const auto targets = at::arange(kBatch * 3).view({kBatch, 3}).mul(0.11).cos();
  const int share = kBatch / group.size();
  const auto mine = [&](const at::Tensor& all) {
    return all.narrow(0, group.rank() * share, share);
  };
  for (int step = 0; step < kSteps; ++step) {
    ddp.backward(
        ddp.forward([&] { return at::mse_loss(module->forward(mine(inputs)), mine(targets)); }));
    ddp.step(sgd().lr, 0.0);
  }
  Trained result{.parameters = {}, .exact = ddp.context().plan().agreement == Agreement::exact};
  // In the order of registration. Where ranks own parts, these need not be what the module holds.
  for (int index = ddp.buffers().count() - 1; index >= 0; --index) {
    result.parameters.push_back(whole_parameters(ddp, ddp.buffers().range(index)).clone());
  }
  return result;
}

/// A strategy and a backend.
class AnyModule : public testing::TestWithParam<std::tuple<std::string, BackendKind>> {};

// As exactly as the strategy promises.
TEST_P(AnyModule, TrainsAsOneProcessDoes) {
  PluginChoice choice;
  choice.kind = PluginKind::strategy;
  choice.name = std::get<0>(GetParam());
  const auto refusal = make_strategy(registry(), choice)->unsupported({.world_size = 3});
  if (refusal) GTEST_SKIP() << refusal->reason;

  std::vector<at::Tensor> alone;
  test::run_ranks(1, [&](ProcessGroup& group) {
    test::Alone strategy;
    alone = train(group, strategy).parameters;
  });
  test::run_ranks(3,
                  [&](ProcessGroup& group) {
                    const auto strategy = make_strategy(registry(), choice);
                    const auto together = train(group, *strategy);
                    for (std::size_t i = 0; together.exact && i < alone.size(); ++i) {
                      const auto difference = together.parameters[i] - alone[i];
                      EXPECT_LE(difference.abs().max().item<double>(), 5e-7) << "parameter " << i;
                    }
                  },
                  {.backend = std::get<1>(GetParam()), .timeout_s = 30});
  const auto start = make_module()->parameters();
  EXPECT_GT((start[0].flatten() - alone[0]).abs().max().item<double>(), 1e-3)
      << "nothing was trained";
}

std::vector<std::string> strategies() {
  std::vector<std::string> names;
  for (const auto& plugin : registry().list()) {
    if (plugin.kind == PluginKind::strategy) names.push_back(plugin.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Strategies, AnyModule,
                         testing::Combine(testing::ValuesIn(strategies()),
                                          testing::Values(BackendKind::gloo, BackendKind::shm)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "__" + name_of(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace ddprun
