// A program of one's own saves what training carries from step to step, and goes on from it.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/training_state.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun::going_on_test {
namespace {

/// What one rank saves: docs/using_the_library.md has this code, by a header that brings more.
struct Saved {
  std::vector<NamedTensor> parameters;
  std::vector<char> own;
};

Saved save(DataParallel& ddp) {
  c10::Dict<std::string, at::Tensor> own;
  for (const auto& part : ddprun::shared_moments(ddp).own) {
    own.insert(part.name + "@" + std::to_string(part.begin), part.values.clone());
  }
  for (const auto& each : ddprun::own_state(ddp)) own.insert(each.name, each.tensor.clone());
  own.insert("updates", at::full({}, ddp.optimizer().updates(), at::kLong));
  return {full_parameters(ddp), torch::jit::pickle_save(own)};
}

void load(DataParallel& ddp, const std::vector<char>& bytes) {
  const auto own = c10::impl::toTypedDict<std::string, at::Tensor>(
      torch::jit::pickle_load(bytes).toGenericDict());
  for (const auto& part : ddprun::shared_moments(ddp).own) {
    part.values.copy_(own.at(part.name + "@" + std::to_string(part.begin)));
  }
  ddprun::read_own_state(ddp, {}, [&](const std::string& name) {
    return own.contains(name) ? own.at(name) : at::Tensor();
  });
  ddp.optimizer().set_updates(own.at("updates").item<std::int64_t>());
}

/// One rank's steps from `first` to `last`, which begin at `from`.
Saved train(ProcessGroup& group, const std::string& strategy_yaml, int first, int last,
            const std::optional<Saved>& from) {
  const at::Tensor a = at::arange(48, at::kFloat).view({8, 6}).sin();
  const at::Tensor b = at::arange(48, at::kFloat).view({6, 8}).t().cos();  // keeps its strides
  if (from) {
    a.copy_(from->parameters[0].tensor);
    b.copy_(from->parameters[1].tensor);
  }
  const std::vector<NamedTensor> parameters = {{"a", a.requires_grad_()},
                                               {"b", b.requires_grad_()}};
  const auto strategy = test::strategy_of(strategy_yaml);
  DataParallel ddp(parameters, group, *strategy, test::fp32(), OptimizerConfig{});
  if (from) {
    load(ddp, from->own);
    EXPECT_NE(check_parameters_equal(ddp, group).status, CheckStatus::failed);
  }
  for (int step = first; step < last; ++step) {
    const at::Tensor x = at::arange(16, at::kFloat).view({2, 8}).add(step + group.rank() * 3).cos();
    ddp.backward(ddp.forward([&] { return at::matmul(at::matmul(x, b), a.t()).square().mean(); }));
    ddp.step(1e-2, 1.0);
  }
  return save(ddp);
}

class GoingOn : public testing::TestWithParam<const char*> {};

TEST_P(GoingOn, IsTheTrainingThatWasNotCut) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const Saved whole = train(group, GetParam(), 0, 5, {});
    const Saved cut = train(group, GetParam(), 0, 3, {});
    const Saved gone_on = train(group, GetParam(), 3, 5, cut);
    for (const int i : {0, 1}) {
      EXPECT_TRUE(at::equal(gone_on.parameters[i].tensor, whole.parameters[i].tensor))
          << "rank " << group.rank() << ", " << whole.parameters[i].name;
      EXPECT_FALSE(at::equal(gone_on.parameters[i].tensor, cut.parameters[i].tensor));
    }
    EXPECT_EQ(gone_on.own, whole.own) << "moments, state and updates";
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, GoingOn,
                         testing::Values("{name: flat}", "{name: torch_ddp}", "{name: zero1}",
                                         "{name: zero2}", "{name: fsdp}", "{name: zero1_cs336}",
                                         "{name: local_sgd, every: 2}", "{name: gossip}",
                                         "{name: powersgd, rank: 1}"));

TEST(OwnState, IsOfParametersThatLieAsTheyLay) {
  test::run_ranks(2, [](ProcessGroup& group) {
    std::vector<NamedTensor> saved;
    // Names, and which two of the three are a unit: of 32 elements, and 16 of padding behind one.
    for (const char* const names : {"ab c", "ba c", "a bc"}) {
      std::vector<NamedTensor> parameters;
      int unit = 0;
      for (const char name : std::string(names)) {
        if (name == ' ') {
          ++unit;
        } else {
          parameters.push_back({std::string(1, name), at::ones({4, 4}).requires_grad_(),
                                "unit " + std::to_string(unit)});
        }
      }
      const bool other = names != std::string("ab c");
      const auto strategy = test::strategy_of("{name: local_sgd, every: 2}");
      DataParallel ddp(parameters, group, *strategy, test::fp32(), OptimizerConfig{});
      if (!other) saved = ddprun::own_state(ddp);
      const std::string error = test::error_of([&] {
        ddprun::read_own_state(ddp, {}, [&](const std::string& name) {
          const auto found = std::ranges::find(saved, name, &NamedTensor::name);
          return found == saved.end() ? at::Tensor() : found->tensor;
        });
      });
      EXPECT_THAT(error, HasSubstr(other ? "parameters that lay elsewhere" : "no error"));
    }
  });
}

}  // namespace
}  // namespace ddprun::going_on_test
