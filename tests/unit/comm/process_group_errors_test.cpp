// Failures of collectives, each as a CommError that names its place: wrong tensors, timeouts, peers
// that leave.
#include <ATen/Functions.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/comm/store/comm_failure.h"
#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::run_ranks;

/// With every backend.
class ProcessGroupErrors : public testing::TestWithParam<BackendKind> {
 protected:
  static CommConfig config(double timeout_s = 30) {
    return {.backend = GetParam(), .timeout_s = timeout_s};
  }

  static void run(const std::function<void(ProcessGroup&)>& body) { run_ranks(2, body, config()); }

  /// How `call` ends on rank 0, as rank 1 does not make it. On a busy machine ranks may not even
  /// meet within the limit: then they have twice as much.
  static ErrorText time_out_of(const std::function<void(ProcessGroup&)>& call) {
    for (double limit_s = 0.3; limit_s < 30; limit_s *= 2) {
      std::atomic<int> met = 0;
      try {
        run_ranks(
            2,
            [&](ProcessGroup& group) {
              ++met;
              if (group.rank() == 0) return call(group);
              std::this_thread::sleep_for(std::chrono::duration<double>(2 * limit_s));
              throw std::runtime_error("rank 1 leaves");
            },
            config(limit_s));
      } catch (const TimeoutError& error) {
        if (met == 2) return error.text();
      } catch (const CommError&) {  // rank 1 had left when rank 0 called
      }
    }
    ADD_FAILURE() << "it never times out";
    return {};
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ProcessGroupErrors,
                         testing::Values(BackendKind::gloo, BackendKind::shm),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(ProcessGroupErrors, RefusesTensorsThatDoNotFit) {
  run([](ProcessGroup& group) {
    const at::Tensor tensor = at::zeros({4, 6});
    EXPECT_THROW(group.all_reduce(tensor.t(), ReduceOp::sum, "x"), CommError);
    EXPECT_THROW(group.all_gather(tensor, at::zeros({11}), "x"), CommError);
    EXPECT_THROW(group.reduce_scatter(at::zeros({12}, at::kLong), tensor, ReduceOp::sum, "x"),
                 CommError);
    EXPECT_THROW(group.broadcast(tensor, 2, "x"), CommError);
    const ErrorText error = test::error_text_of<CommError>(
        [&] { group.reduce_scatter(at::zeros({5}), tensor, ReduceOp::sum, "layers.0.w"); });
    EXPECT_THAT(error.where, HasSubstr("of 2, reduce_scatter 'layers.0.w'"));
    EXPECT_THAT(error.got, HasSubstr("24 elements"));
    EXPECT_THAT(error.expected, HasSubstr("2 times"));
  });
}

TEST_P(ProcessGroupErrors, AMissingRankIsATimeout) {
  const ErrorText error = time_out_of([](ProcessGroup& group) {
    const at::Tensor tensor = at::zeros({10});
    group.all_reduce(tensor, ReduceOp::sum, "layers.0.ffn.w1.weight").wait();
  });
  EXPECT_EQ(error.what, "a collective failed");
  EXPECT_EQ(error.where, "rank 0 of 2, all_reduce 'layers.0.ffn.w1.weight'");
  EXPECT_THAT(error.hint, HasSubstr("timeout_s"));
}

TEST_P(ProcessGroupErrors, AMissingTextIsATimeout) {
  const ErrorText error = time_out_of([](ProcessGroup& group) { group.all_gather_object("here"); });
  EXPECT_THAT(error.got, HasSubstr("missing: rank 1"));
}

TEST_P(ProcessGroupErrors, APeerThatLeavesFailsWhatIsUnderWay) {
  const std::int64_t begin = now_ns();
  const ErrorText error = test::error_text_of<PeerGoneError>([&] {
    run([](ProcessGroup& group) {
      const at::Tensor tensor = at::zeros({10});
      group.all_reduce(tensor, ReduceOp::sum, "first").wait();
      if (group.rank() == 1) throw std::runtime_error("rank 1 leaves");
      std::vector<at::Tensor> tensors;
      std::vector<Work> works;
      for (int i = 0; i < 20; ++i) {
        tensors.push_back(at::zeros({1000}));
        works.push_back(group.all_reduce(tensors.back(), ReduceOp::sum, "second"));
      }
      for (auto& work : works) work.wait();
    });
  });
  EXPECT_THAT(error.where, HasSubstr("all_reduce 'second'"));
  EXPECT_THAT(error.hint, HasSubstr("another rank ended"));
  EXPECT_LT(to_ms(now_ns() - begin), 20'000) << "waited for the timeout";
}

TEST_P(ProcessGroupErrors, C10dCodeSeesFailuresAsCommError) {
  const ErrorText error = test::error_text_of<CommError>([&] {
    run([](ProcessGroup& group) {
      group.barrier("both are there");
      if (group.rank() == 1) throw std::runtime_error("rank 1 leaves");
      std::vector<at::Tensor> tensors = {at::zeros({10})};
      group.as_c10d()->allreduce(tensors)->getFuture()->waitAndThrow();
    });
  });
  EXPECT_THAT(error.where, HasSubstr("all_reduce 'c10d.allreduce'"));
}

}  // namespace
}  // namespace ddprun
