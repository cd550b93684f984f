// Which collectives the built-in strategies issue, in which order, and where buckets are cut.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/base/clock.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/plugin/run_description.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plugin_library.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::strategy_of;

/// Parameters of these many KiB each, given in the order of backward; integers, so that means are
/// exact.
struct Model {
  explicit Model(const std::vector<int>& kib) {
    for (std::size_t i = kib.size(); i-- > 0;) {
      parameters.push_back(
          {"p" + std::to_string(i), at::ones({kib[i] * 256}, at::kFloat).requires_grad_()});
    }
    buffers = std::make_unique<FlatBuffers>(parameters);
  }
  std::vector<NamedTensor> parameters;
  std::unique_ptr<FlatBuffers> buffers;
};

/// The gradient all-reduces of one step: labels and KiB, in the order of the calls.
std::vector<std::pair<std::string, std::int64_t>> reductions(ProcessGroup& group) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const CollectiveRecord& record : group.take_records()) {
    EXPECT_EQ(record.kind, CollectiveKind::all_reduce);
    out.emplace_back(record.label, record.bytes / 1024);
  }
  return out;
}

/// Buckets that `yaml` gives.
std::vector<std::int64_t> bucket_kib(const std::string& yaml, const std::vector<int>& kib) {
  std::vector<std::int64_t> out;
  const Model model(kib);
  const Plan plan = strategy_of(yaml)->plan(*model.buffers, 0);
  for (const PlannedCollective& planned : plan.collectives) out.push_back(planned.bytes / 1024);
  return out;
}

TEST(Bucketed, ClosesABucketOnceItReachesTheCap) {
  const std::string caps = "{name: bucketed, first_bucket_mb: 0.5, bucket_mb: 1}";
  // 300 + 212 reach 512 exactly; 1000 + 100 pass 1024; a large gradient closes its own; the rest
  // remains.
  EXPECT_THAT(bucket_kib(caps, {300, 212, 1000, 100, 3000, 10, 20}),
              ElementsAre(512, 1100, 3000, 30));
  EXPECT_THAT(bucket_kib(caps, {300, 211, 1000, 24, 1000}), ElementsAre(1511, 1024));
  EXPECT_THAT(bucket_kib(caps, {5}), ElementsAre(5));
  EXPECT_THAT(bucket_kib("{name: bucketed, first_bucket_mb: 0, bucket_mb: 0}", {1, 2, 3}),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(bucket_kib("{name: bucketed}", {1000, 24, 20000, 5600, 7}),
              ElementsAre(1024, 25600, 7));
}

/// Gradients of rank r: (r + 1) * (index + 1); their mean on two ranks: 1.5 * (index + 1).
void fill_gradients(const FlatBuffers& buffers, int rank) {
  for (int i = 0; i < buffers.count(); ++i) {
    buffers.gradients(buffers.range(i)).fill_((rank + 1.0) * (i + 1));
  }
}

void expect_means(const FlatBuffers& buffers) {
  for (int i = 0; i < buffers.count(); ++i) {
    const at::Tensor gradient = buffers.gradients(buffers.range(i));
    EXPECT_TRUE(at::equal(gradient, at::full_like(gradient, 1.5 * (i + 1)))) << "gradient " << i;
  }
}

/// Two steps on two ranks, which finish their gradients in the given orders; returns rank 0's calls
/// of the last step.
std::vector<std::pair<std::string, std::int64_t>> run(const std::string& yaml,
                                                      const std::vector<int>& order_0,
                                                      const std::vector<int>& order_1) {
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Model model({4, 8, 12, 16});
    const auto strategy = strategy_of(yaml);
    BufferContext context(group, group, *model.buffers,
                          strategy->plan(*model.buffers, group.rank()));
    strategy->setup(context);
    for (int step = 0; step < 2; ++step) {
      (void)group.take_records();
      fill_gradients(*model.buffers, group.rank());
      for (const int index : group.rank() == 0 ? order_0 : order_1) strategy->on_gradient(index);
      strategy->finish_backward();
      expect_means(*model.buffers);
    }
    auto mine = reductions(group);
    EXPECT_EQ(mine.size(), context.plan().collectives.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i].second * 1024, context.plan().collectives[i].bytes);
    }
    return mine;
  })[0];
}

using Call = std::pair<std::string, std::int64_t>;

TEST(Strategies, CollectivesOfAStep) {
  const std::vector<int> order = {0, 1, 2, 3};
  EXPECT_THAT(run("{name: naive}", order, order),
              ElementsAre(Call("p0", 4), Call("p1", 8), Call("p2", 12), Call("p3", 16)));
  EXPECT_THAT(run("{name: flat}", order, order), ElementsAre(Call("gradients", 40)));
  EXPECT_THAT(run("{name: flat, copy: true}", order, order), ElementsAre(Call("gradients", 40)));
  EXPECT_THAT(run("{name: overlap}", order, order),
              ElementsAre(Call("p0", 4), Call("p1", 8), Call("p2", 12), Call("p3", 16)));
  EXPECT_THAT(run("{name: bucketed, first_bucket_mb: 0.01, bucket_mb: 25}", order, order),
              ElementsAre(Call("bucket 0", 12), Call("bucket 1", 28)));
}

TEST(Strategies, RanksThatFinishInOtherOrdersAgree) {
  for (const char* yaml :
       {"{name: overlap}", "{name: bucketed, first_bucket_mb: 0.01, bucket_mb: 0.01}"}) {
    const auto in_order = run(yaml, {0, 1, 2, 3}, {0, 1, 2, 3});
    EXPECT_EQ(run(yaml, {0, 1, 2, 3}, {3, 1, 0, 2}), in_order) << yaml;
    // Rank 1 did not use parameters 0 and 2 in its forward.
    EXPECT_EQ(run(yaml, {3, 2, 1, 0}, {1, 3}), in_order) << yaml;
  }
}

TEST(Strategies, OverlapStartsBeforeBackwardEnds) {
  for (const char* yaml :
       {"{name: overlap}", "{name: bucketed, first_bucket_mb: 0.001, bucket_mb: 0.001}"}) {
    test::run_ranks(2, [&](ProcessGroup& group) {
      Model model({4, 8});
      const auto strategy = strategy_of(yaml);
      BufferContext context(group, group, *model.buffers,
                            strategy->plan(*model.buffers, group.rank()));
      strategy->setup(context);
      (void)group.take_records();
      fill_gradients(*model.buffers, group.rank());
      strategy->on_gradient(0);
      const auto before_second = now_ns();
      strategy->on_gradient(1);
      strategy->finish_backward();
      const auto records = group.take_records();
      ASSERT_EQ(records.size(), 2u);
      EXPECT_LE(records[0].enqueue_ns, before_second) << yaml;
      EXPECT_GE(records[1].enqueue_ns, before_second) << yaml;
    });
  }
}

TEST(TorchDdp, RefusesGradientsThatTravelInAnotherDtype) {
  const auto strategy = strategy_of("{name: torch_ddp}");
  EXPECT_EQ(words_of(strategy->unsupported({})), "");
  EXPECT_THAT(words_of(strategy->unsupported({.dtypes = {.reduce = at::kBFloat16}})),
              HasSubstr("in the dtype of the parameters"));
}

TEST(None, RefusesSeveralRanksUnlessAsked) {
  const RunDescription two{.world_size = 2};
  EXPECT_EQ(words_of(strategy_of("{name: none}")->unsupported({})), "");
  EXPECT_THAT(words_of(strategy_of("{name: none}")->unsupported(two)),
              HasSubstr("unsynchronized: true"));
  EXPECT_EQ(words_of(strategy_of("{name: none, unsynchronized: true}")->unsupported(two)), "");
  test::run_ranks(2, [&](ProcessGroup& group) {
    Model model({4});
    const auto refused = strategy_of("{name: none}");
    EXPECT_THROW(DataParallel(model.parameters, group, *refused, test::fp32(), {}), ConfigError);
    const auto control = strategy_of("{name: none, unsynchronized: true}");
    const DataParallel ddp(model.parameters, group, *control, test::fp32(), {});
    (void)group.take_records();  // of rank 0's parameters
    control->on_gradient(0);
    control->finish_backward();
    EXPECT_EQ(ddp.context().plan().agreement, Agreement::none);
    EXPECT_TRUE(ddp.planned().empty());
    EXPECT_TRUE(group.take_records().empty());
  });
}

}  // namespace
}  // namespace ddprun
