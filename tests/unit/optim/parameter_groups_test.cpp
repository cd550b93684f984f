// Groups of parameters: which settings hold where, and updates that are those of an optimizer for
// each group.
#include "ddprun/optim/parameter_groups.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/optim/optimizer.h"
#include "support/matchers.h"

namespace ddprun::parameter_groups_test {
namespace {

std::vector<NamedTensor> parameters() {
  const auto values = [](std::int64_t count) {
    return at::linspace(-1, 1, count, at::kFloat).requires_grad_();
  };
  return {{"embedding.weight", values(700)},
          {"block.norm.weight", values(33)},
          {"block.weight", values(500)},
          {"head.weight", values(90)}};
}

OptimizerConfig with_groups(OptimizerKind name) {
  OptimizerConfig config;
  config.name = name;
  config.weight_decay = 0.2;
  if (name == OptimizerKind::sgd) config.momentum = 0.9;
  config.groups = {{.match = "*norm*", .weight_decay = 0},
                   {.match = "block.*", .lr_scale = 0.5, .weight_decay = 0.1}};
  return config;
}

/// Five steps. Ranges of every length, so that none is a group's.
std::vector<at::Tensor> train(const OptimizerConfig& config, bool of_devices) {
  FlatBuffers buffers(parameters());
  const auto optimizer =
      of_devices ? make_device_optimizer(config, buffers) : make_optimizer(config, buffers);
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < buffers.count(); ++i) {
      const at::Tensor gradient = buffers.gradients(buffers.range(i));
      gradient.copy_(at::linspace(0.1 * (step + 1), i, gradient.numel(), at::kFloat));
    }
    optimizer->begin_step(0.01 * (step + 1));
    optimizer->update({64, 656});
    optimizer->update_all();
  }
  std::vector<at::Tensor> out;
  for (int i = 0; i < buffers.count(); ++i) {
    out.push_back(buffers.parameters(buffers.range(i)).clone());
  }
  return out;
}

TEST(ParameterGroups, EachIsUpdatedAsByAnOptimizerOfItsOwn) {
  for (const auto name : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    for (const bool aten : {false, true}) {
      if (aten && name == OptimizerKind::adamw) continue;  // a kernel of GPUs: tests/gpu
      const auto got = train(with_groups(name), aten);
      OptimizerConfig alone = with_groups(name);
      alone.groups.clear();
      // In the order of the buffers: the head, the block, its norm, the embedding.
      const auto others = train(alone, aten);
      EXPECT_TRUE(at::equal(got[0], others[0]));
      EXPECT_TRUE(at::equal(got[3], others[3]));
      alone.weight_decay = 0;
      EXPECT_TRUE(at::equal(got[2], train(alone, aten)[2]));
      EXPECT_FALSE(at::equal(got[2], others[2]));
      // The rate is halved: the step's own, since a group has but a factor.
      alone.weight_decay = 0.1;
      alone.groups = {{.match = "*", .lr_scale = 0.5, .weight_decay = 0.1}};
      EXPECT_TRUE(at::equal(got[1], train(alone, aten)[1]));
      EXPECT_FALSE(at::equal(got[1], others[1]));
    }
  }
}

TEST(ParameterGroups, KernelsAndAtenAgree) {
  const OptimizerConfig sgd = with_groups(OptimizerKind::sgd);
  const auto kernels = train(sgd, false), aten = train(sgd, true);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_LT((kernels[i] - aten[i]).abs().max().item<double>(), 1e-6);
  }
}

/// A factor of 0 leaves parameters as they are, which no rounding can hide.
TEST(ParameterGroups, ARateOfNothingChangesNothing) {
  OptimizerConfig config;
  config.groups = {{.match = "head.*", .lr_scale = 0}};
  const FlatBuffers before(parameters());
  const auto after = train(config, false);
  EXPECT_TRUE(at::equal(after[0], before.parameters(before.range(0))));
  EXPECT_FALSE(at::equal(after[1], before.parameters(before.range(1))));
}

TEST(ParameterGroups, RangesMakeUpTheBuffer) {
  const ParameterLayout layout(parameters(), {}, KernelSet::reference, 4);
  const auto ranges = grouped_ranges(layout, with_groups(OptimizerKind::adamw));
  ASSERT_EQ(ranges.size(), 4U);
  std::int64_t end = 0;
  for (const GroupedRange& each : ranges) {
    EXPECT_EQ(each.range.begin, end);
    end = each.range.end;
  }
  EXPECT_EQ(end, layout.all().end);
  EXPECT_EQ(grouped_ranges(layout, {}).size(), 1U);
}

TEST(ParameterGroups, TheFirstThatMatchesCountsAndEachHasAParameter) {
  const std::vector<std::string> names = {"a.norm", "a.weight"};
  OptimizerConfig config;
  config.groups = {{.match = "a.*", .lr_scale = 2}, {.match = "*.norm", .lr_scale = 3}};
  const auto error = [&] {
    return test::error_of<ConfigError>([&] { group_settings(names, config); });
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("optimizer.groups[1].match chooses no parameter"),
                             HasSubstr("an earlier group")));
  std::swap(config.groups[0], config.groups[1]);
  config.weight_decay = 0.3;
  config.groups[1].weight_decay = 0.4;
  const auto settings = group_settings(names, config);
  EXPECT_EQ(settings[0], (GroupSettings{3, 0.3})) << "the optimizer's decay, as none is given";
  EXPECT_EQ(settings[1], (GroupSettings{2, 0.4}));
  config.groups = {ParameterGroup{}};
  EXPECT_THAT(error(), HasSubstr("no pattern"));
}

}  // namespace
}  // namespace ddprun::parameter_groups_test
