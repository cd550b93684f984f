// What the far device says of work that does not wait for what it uses.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <optional>
#include <thread>

#include "ddprun/base/failure.h"
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"
#include "support/process_ranks.h"

namespace ddprun::test {
namespace {

/// The first two are (1000,), the last one (2000,): all of float32.
struct Tensors {
  at::Tensor values, slice, whole;
};
using Body = std::function<void(ProcessGroup&, Tensors&)>;

class FarStreams : public GpuTest {
 protected:
  /// What `body` throws on two ranks, whose first call names it; empty: nothing.
  static void expect_words(const std::vector<const char*>& words, const Body& body) {
    const WorldConfig world = gpu_world(2);
    const auto ends = run_process_ranks(2, [&](const RankInfo& info) {
      const auto device = open_rank_device(world, info);
      const auto group = connect(info, {.timeout_s = 15}, "run", host_identity(), *device);
      const auto options = at::TensorOptions(device->torch_device()).dtype(at::kFloat);
      Tensors tensors = {at::ones({1000}, options), at::ones({1000}, options),
                         at::ones({2000}, options)};
      std::string thrown;
      try {
        body(*group, tensors);
      } catch (const std::exception& failure) {
        thrown = ddprun::message_of(failure);
      }
      for (const char* each : words) EXPECT_THAT(thrown, HasSubstr(each));
      EXPECT_EQ(words.empty(), thrown.empty()) << thrown;
      return 0;
    });
    EXPECT_THAT(ends, Each(0));
  }
};

TEST_F(FarStreams, ARead) {
  expect_words(
      {"aten::add reads bytes 0 to 4000", "all_reduce 'sum' writes", "has not waited for it"},
      [](ProcessGroup& group, Tensors& on) {
        const Work work = group.all_reduce(on.values, ReduceOp::sum, "sum");
        on.values.add(1);
      });
}

TEST_F(FarStreams, AWriteWhereACollectiveReads) {
  expect_words({"aten::zero_ writes bytes 4000 to 4004", "reduce_scatter 'parts' reads"},
               [](ProcessGroup& group, Tensors& on) {
                 const Work work = group.reduce_scatter(on.slice, on.whole, ReduceOp::sum, "parts");
                 on.whole.narrow(0, 1000, 1).zero_();
               });
}

TEST_F(FarStreams, AnotherCollective) {
  expect_words({"all_gather 'whole' reads", "all_reduce 'sum' writes"},
               [](ProcessGroup& group, Tensors& on) {
                 const Work work = group.all_reduce(on.values, ReduceOp::sum, "sum");
                 group.all_gather(on.whole, on.values, "whole").wait();
               });
}

TEST_F(FarStreams, AWaitForOneIsNoneForAnother) {
  expect_words({"which all_reduce 'second' writes"}, [](ProcessGroup& group, Tensors& on) {
    Work first = group.all_reduce(on.values, ReduceOp::sum, "first");
    const Work second = group.all_reduce(on.slice, ReduceOp::sum, "second");
    first.wait();
    on.values.add(1);
    on.slice.add(1);
  });
}

TEST_F(FarStreams, MemoryThatIsReleased) {
  expect_words({"a block of 4096 bytes was released while all_gather 'whole' reads it"},
               [](ProcessGroup& group, Tensors& on) {
                 const Work work = group.all_gather(on.whole, on.values, "whole");
                 on.values = at::Tensor();
                 on.slice.add_(1);
               });
}

TEST_F(FarStreams, AThreadWithoutTheRanksStream) {
  expect_words({"aten::add reads", "aten::mul writes"}, [](ProcessGroup&, Tensors& on) {
    on.values.mul_(2);
    std::exception_ptr thrown;
    std::thread([&] {
      try {
        on.values.add(1);
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
  });
}

TEST_F(FarStreams, ACaptureThatEndsOrBeginsTooEarly) {
  expect_words({"nobody has waited for all_reduce 'sum'"}, [](ProcessGroup& group, Tensors& on) {
    std::optional<Work> work;
    group.device().capture([&] { work = group.all_reduce(on.values, ReduceOp::sum, "sum"); });
  });
  expect_words({"waits for work from before the capture"}, [](ProcessGroup& group, Tensors& on) {
    Work work = group.all_reduce(on.values, ReduceOp::sum, "sum");
    group.device().capture([&] { work.wait(); });
  });
}

TEST_F(FarStreams, WorkThatWaitsIsRight) {
  expect_words({}, [](ProcessGroup& group, Tensors& on) {
    Work sum = group.all_reduce(on.values, ReduceOp::sum, "sum");
    on.whole.add_(1);  // another's memory
    sum.wait();
    Work parts = group.reduce_scatter(on.slice, on.whole, ReduceOp::sum, "parts");
    on.values.add_(on.whole.sum());  // both read
    parts.wait();
    on.slice.add_(1);
    on.whole.zero_();
    group.device().capture([&] { group.all_reduce(on.values, ReduceOp::sum, "sum").wait(); });
    group.device().synchronize();
    std::thread([&] { on.values.add(1); }).join();
  });
}

TEST_F(FarStreams, AStrategyThatForgets) {
  const TemporaryFolder folder;
  folder.write("planted.yaml", tiny_experiment());
  const auto run = [&](const std::string& fault) {
    Words words = gpu_command("run", "planted.yaml", gpu_world(2));
    words.insert(words.end(), {"--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/planted"});
    return run_ddprun(folder, with_sets(words, {"strategy={name: planted, fault: " + fault + "}"}));
  };
  EXPECT_EQ(run("nothing").status, 0);
  for (const char* fault : {"no_wait", "write_on_the_way"}) {
    const CommandResult result = run(fault);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out + result.err, HasSubstr("and has not waited for it")) << fault;
  }
}

}  // namespace
}  // namespace ddprun::test
