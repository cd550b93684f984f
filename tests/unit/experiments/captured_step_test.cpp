// Steps that a device captures: what the trainer launches equals what it runs eagerly, and
// collectives within it are recorded at each launch. The host's times beside a device's.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

/// The CPU, whose captured work is a call that is made again.
class Repeater final : public Device {
 public:
  c10::Device torch_device() const override { return cpu_device().torch_device(); }
  Mark mark() override { return cpu_device().mark(); }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override {
    struct Again final : CapturedWork {
      Again(std::function<void()> given, int& launches)
          : work(std::move(given)), launches(launches) {}
      void launch() override {
        work();
        ++launches;
      }
      std::function<void()> work;
      int& launches;
    };
    ++captures;
    return std::make_unique<Again>(work, launches);
  }
  bool capturing() const override { return capturing_now; }

  int captures = 0;
  int launches = 0;
  bool capturing_now = false;
};

constexpr int kSteps = 6;

struct Trained {
  at::Tensor parameters;
  std::vector<Sample> samples;
  int seen = 0;  // steps whose averaged gradients were shown
};

Trained train(ProcessGroup& group, ExecutionMode mode) {
  Experiment experiment = test::small_experiment(group.size());
  experiment.plugin(PluginKind::attention).name = "sdpa";
  training(experiment).train.accumulate = 2;
  training(experiment).train.steps = kSteps - training(experiment).train.warmup_steps;
  training(experiment).optimizer.clip_norm = 0.5;
  training(experiment).optimizer.schedule = {.name = Schedule::cosine,
                                             .warmup_steps = 4};  // a rate of its own each
  training(experiment).execution.mode = mode;
  experiment.plugin(PluginKind::strategy).name = "overlap";
  Trainer trainer(experiment, make_plugins(test::registry(), experiment), group);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    trained.samples.push_back(trainer.step(step, [&] { ++trained.seen; }));
  }
  auto& buffers = trainer.data_parallel().buffers();
  trained.parameters = buffers.parameters(buffers.all()).clone();
  return trained;
}

TEST(CapturedStep, EqualsTheEagerOneInAllThatIsNotTime) {
  const auto store = make_thread_store();
  test::run_threads(
      2,
      [&](int rank) {
        static thread_local Repeater device;
        return connect_thread(store, rank, 2, {.timeout_s = 30}, device);
      },
      [](ProcessGroup& group) {
        auto& device = dynamic_cast<Repeater&>(group.device());
        const Trained eager = train(group, ExecutionMode::eager);
        EXPECT_EQ(device.captures, 0);
        const Trained graph = train(group, ExecutionMode::cuda_graph);
        EXPECT_EQ(device.captures, 1);
        EXPECT_EQ(device.launches, kSteps - ExecutionConfig::kEagerSteps);
        EXPECT_EQ(eager.seen, kSteps);
        EXPECT_EQ(graph.seen, ExecutionConfig::kEagerSteps);
        EXPECT_TRUE(at::equal(eager.parameters, graph.parameters));
        const Training& q = training();
        for (int step = 0; step < kSteps; ++step) {
          const Sample& a = eager.samples[step];
          const Sample& b = graph.samples[step];
          for (const Quantity* same : {&q.loss, &q.gradient_norm, &q.collectives, &q.bytes}) {
            EXPECT_EQ(a.find(*same), b.find(*same)) << same->key << " of step " << step;
          }
          EXPECT_NEAR(b[q.forward_ms] + b[q.backward_ms] + b[q.synchronize_ms] + b[q.optimizer_ms],
                      b[q.step_ms], 1e-6);
        }
      });
}

TEST(HostTimes, AreThereWhereADeviceWorksBehindTheHost) {
  const Training& q = training();
  const auto last_sample = [](Device& device) {
    return train(*connect_thread(make_thread_store(), 0, 1, {}, device), ExecutionMode::eager)
        .samples.back();
  };
  Repeater device;
  const Sample behind = last_sample(device), on_cpu = last_sample(cpu_device());
  EXPECT_GT(behind[q.host_forward_ms], 0);
  EXPECT_GT(behind[q.host_backward_ms], 0);
  EXPECT_LE(behind[q.host_forward_ms] + behind[q.host_backward_ms], behind[q.host_ms]);
  for (const Quantity* each : {&q.host_ms, &q.host_forward_ms, &q.host_backward_ms}) {
    EXPECT_FALSE(on_cpu.find(*each)) << each->key;
  }
}

TEST(CapturedStep, ItsCollectivesAreRecordedAtEachLaunchAndNotBefore) {
  Repeater device;
  const auto group = connect_thread(make_thread_store(), 0, 1, {}, device);
  const at::Tensor tensor = at::ones({8});
  group->take_records();
  device.capturing_now = true;
  group->all_reduce(tensor, ReduceOp::sum, "captured").wait();
  device.capturing_now = false;
  EXPECT_TRUE(group->take_records().empty());
  for (int launch = 0; launch < 2; ++launch) {
    group->all_reduce(tensor, ReduceOp::sum, "before").wait();
    group->replay();
    const auto records = group->take_records();
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(records[0].label, "before");
    EXPECT_EQ(records[1].label, "captured");
    EXPECT_EQ(records[1].bytes, 32);
    EXPECT_GT(records[1].wait_end_ns, 0);
    EXPECT_TRUE(group->take_records().empty());
  }
}

}  // namespace
}  // namespace ddprun
