// The sharded optimizer of CS336: who owns which parameter, what a rank holds, what travels.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

std::shared_ptr<Strategy> make() { return test::strategy_of("{name: zero1_cs336}"); }

/// Vectors of ones of these sizes, given in the order of the buffers.
std::vector<NamedTensor> parameters_of(const std::vector<std::int64_t>& sizes) {
  std::vector<NamedTensor> parameters;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    parameters.push_back({"p" + std::to_string(i), at::ones({sizes[i]}).requires_grad_()});
  }
  return parameters;
}

TEST(Zero1Cs336, EachParameterHasOneOwnerAndSharesAreBalanced) {
  const auto strategy = make();
  for (int ranks = 1; ranks <= 8; ++ranks) {  // 7 and 8: more than there are parameters
    const ParameterLayout layout(parameters_of({40, 7, 300, 1, 250, 64}), {}, KernelSet::reference,
                                 ranks);
    std::vector<std::int64_t> shares(ranks);
    std::vector<int> owners(layout.count());
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Range& own : strategy->plan(layout, rank).holding.owned) {
        for (int index = 0; index < layout.count(); ++index) {
          if (!own.contains(layout.with_padding(index))) continue;
          ++owners[index];
          shares[rank] += layout.range(index).size();
        }
      }
    }
    EXPECT_THAT(owners, Each(1)) << ranks << " ranks";
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    EXPECT_LE(*most - *least, 300) << ranks << " ranks";
  }
}

TEST(Zero1Cs336, TrainsAsFlatDoes) {
  for (const char* precision : {"fp32", "bf16_mixed"}) {
    test::run_ranks(2, [&](ProcessGroup& group) {
      const auto trained = [&](const char* strategy) {
        return test::train_and_prove(test::sharding_experiment(strategy, precision, 2), group, 3);
      };
      const auto expected = trained("{name: flat}");
      test::expect_equal(trained("{name: zero1_cs336}"), expected);
    });
  }
}

TEST(Zero1Cs336, ARankHoldsAndSendsWhatTheTablesSay) {
  for (const char* precision : {"fp32", "bf16_mixed"}) {
    SCOPED_TRACE(precision);
    const Experiment experiment = test::sharding_experiment("{name: zero1_cs336}", precision, 2);
    std::int64_t all = 0;
    std::vector<std::int64_t> owned(2);
    test::run_ranks(2, [&](ProcessGroup& group) {
      Trainer trainer(experiment, make_plugins(registry(), experiment), group);
      trainer.step(0);
      const FlatBuffers& buffers = trainer.data_parallel().buffers();
      const std::int64_t p = buffers.all().size();
      EXPECT_EQ(buffers.allocated_bytes(), 8 * p + 2 * buffers.copied().size());
      std::int64_t& own = owned[group.rank()];
      for (const Range& range : buffers.owned()) own += range.size();
      EXPECT_EQ(trainer.data_parallel().optimizer().state_bytes(), 8 * own);
      if (group.rank() == 0) all = p;

      std::vector<std::int64_t> read;  // bytes
      for (int i = 0; i < buffers.count(); ++i) {
        const auto element = static_cast<std::int64_t>(c10::elementSize(read_dtype(buffers, i)));
        read.push_back(buffers.range(i).size() * element);
      }
      std::vector<std::int64_t> sent;
      for (const CollectiveRecord& record : trainer.last_records()) {
        if (record.kind == CollectiveKind::broadcast) sent.push_back(record.bytes);
      }
      EXPECT_EQ(sent, read);
    });
    EXPECT_EQ(owned[0] + owned[1], all);
    EXPECT_GT(std::min(owned[0], owned[1]), 0);
  }
}

/// Sizes of parameters, ranks.
struct Shape {
  std::vector<std::int64_t> sizes;
  int ranks;
};

TEST(Zero1Cs336, RanksThatOwnNothingTakePart) {
  for (const Shape& shape : {Shape{{7, 15}, 3}, Shape{{15}, 2}, Shape{{7, 15}, 1}}) {
    for (const char* name : {"fp32", "fp16_mixed"}) {
      SCOPED_TRACE(std::to_string(shape.ranks) + " ranks, " + name);
      test::run_ranks(shape.ranks, [&](ProcessGroup& group) {
        const auto precision = make_precision(
            registry(),
            test::choice_of(PluginKind::precision, std::string("{name: ") + name + "}"));
        const auto strategy = make();
        const auto parameters = parameters_of(shape.sizes);
        OptimizerConfig sgd = test::plain_sgd();
        sgd.clip_norm = 0.5;
        DataParallel ddp(parameters, group, *strategy, *precision, sgd);
        EXPECT_EQ(check_integer_gradients(ddp, group).status, CheckStatus::passed);
        (void)group.take_records();

        const auto loss = [&] {
          at::Tensor sum = parameters[0].tensor.sum();
          for (std::size_t i = 1; i < parameters.size(); ++i)
            sum = sum + parameters[i].tensor.sum();
          return sum * static_cast<double>(group.rank() + 1);
        };
        ddp.backward(ddp.forward(loss));
        const StepOutcome outcome = ddp.step(0.1, sgd.clip_norm);
        EXPECT_EQ(compare_with_plan(group.take_records(), ddp.planned()), "");
        // The mean of each gradient is (ranks + 1) / 2; of norm 0.5 it is 0.5 / length.
        const double length = std::sqrt(static_cast<double>(ddp.buffers().parameter_count()));
        EXPECT_NEAR(outcome.gradient_norm().value_or(0.0), (shape.ranks + 1) / 2.0 * length, 1e-3);
        for (const NamedTensor& each : parameters) {
          const at::Tensor got = each.tensor.detach();
          EXPECT_TRUE(at::allclose(got, at::full_like(got, 1.0 - 0.1 * 0.5 / length)));
        }
        EXPECT_EQ(check_parameters_equal(ddp, group).status, CheckStatus::passed);
      });
    }
  }
}

}  // namespace
}  // namespace ddprun
