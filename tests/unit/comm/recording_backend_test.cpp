// The records of collectives: what ran, when it could start and ended, who waited, and how many are
// kept.
#include "ddprun/comm/group/recording_backend.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/comm_failure.h"
#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::run_ranks;

void expect_plausible_times(const CollectiveRecord& record, std::int64_t before,
                            std::int64_t after) {
  EXPECT_LE(before, record.enqueue_ns) << record.label;
  EXPECT_LE(record.enqueue_ns, record.start_ns) << record.label;
  EXPECT_LE(record.start_ns, record.end_ns) << record.label;
  EXPECT_LE(record.end_ns, after) << record.label;
}

/// A backend on which nothing starts.
class Failing final : public c10d::Backend {
 public:
  explicit Failing(std::function<void()> fail) : Backend(0, 1), fail_(std::move(fail)) {}
  const std::string getBackendName() const override { return "failing"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    fail_();
    return {};
  }
  at::Tensor allocateTensor(long, at::TensorOptions) override {
    fail_();
    return {};
  }
  void shutdown() override { fail_(); }

 private:
  std::function<void()> fail_;
};

TEST(Recording, MemoryThatRanOutIsNoFailureOfTheCommunication) {
  const auto recording = c10::make_intrusive<RecordingBackend>(
      c10::make_intrusive<Failing>([] { C10_THROW_ERROR(OutOfMemoryError, "no memory"); }), 1,
      cpu_device());
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  EXPECT_THROW(recording->allreduce(tensors, {}), c10::OutOfMemoryError);
  EXPECT_THROW(recording->allocateTensor(1, at::kFloat), c10::OutOfMemoryError);
}

/// What is thrown where a backend fails like that.
std::exception_ptr thrown_for(std::function<void()> fail) {
  const auto recording = c10::make_intrusive<RecordingBackend>(
      c10::make_intrusive<Failing>(std::move(fail)), 1, cpu_device());
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  try {
    recording->allreduce(tensors, {});
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(Recording, TheTypeOfAFailureTellsWhatItIs) {
  const auto too_long = thrown_for([] { throw TimeoutError({.what = "rank 1 did not come"}); });
  EXPECT_THROW(std::rethrow_exception(too_long), TimeoutError);
  const auto no_key = thrown_for([] { C10_THROW_ERROR(DistStoreError, "no such key"); });
  EXPECT_THROW(std::rethrow_exception(no_key), TimeoutError);
  const auto gone = thrown_for([] { throw PeerGoneError({.what = "rank 1 has ended"}); });
  EXPECT_THROW(std::rethrow_exception(gone), PeerGoneError);
}

TEST(Recording, WordsOfATimeOutOrOfAPeerThatLeftAreNone) {
  for (const char* words : {"no agreement within 3 rounds", "timeout_s is 60",
                            "operation timed out", "a value given by peer 1", "rank 1 is gone"}) {
    const auto failure = thrown_for([words] { throw std::runtime_error(words); });
    try {
      std::rethrow_exception(failure);
    } catch (const CommError& error) {
      EXPECT_EQ(typeid(error), typeid(CommError)) << words;
      EXPECT_EQ(error.text().got, words);
      EXPECT_EQ(error.text().hint, "see the messages of the other ranks");
    }
  }
}

TEST(Recording, AnErrorThatSaysWhereItHappenedGoesOnAsItIs) {
  const auto failure = thrown_for(
      [] { throw PeerGoneError({.what = "the store was lost", .where = "rank 0 of 2"}); });
  try {
    std::rethrow_exception(failure);
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.text().what, "the store was lost");
  }
}

TEST(Recording, AnEndThatFailsIsACommError) {
  const auto recording = c10::make_intrusive<RecordingBackend>(
      c10::make_intrusive<Failing>([] { throw std::runtime_error("flush failed"); }), 1,
      cpu_device());
  const std::string error = test::error_of<CommError>([&] { recording->shutdown(); });
  EXPECT_THAT(error, HasSubstr("flush failed"));
}

class RecordsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Count, RecordsOf, testing::Values(1, 2, 3, 4));

TEST_P(RecordsOf, EveryKindSayWhatRan) {
  run_ranks(GetParam(), [](ProcessGroup& group) {
    const int n = group.size();
    const std::int64_t before = now_ns();
    const at::Tensor whole = at::zeros({100 * n});
    const at::Tensor slice = at::zeros({100});
    group.all_reduce(whole, ReduceOp::sum, "a").wait();
    group.broadcast(whole, 0, "b").wait();
    group.reduce_scatter(slice, whole, ReduceOp::avg, "c").wait();
    group.all_gather(whole, slice, "d").wait();
    group.barrier("e");
    const std::int64_t after = now_ns();
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 5U);
    const std::vector<CollectiveKind> kinds = {
        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce_scatter,
        CollectiveKind::all_gather, CollectiveKind::barrier};
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(records[i].kind, kinds[i]);
      EXPECT_EQ(records[i].label, std::string(1, static_cast<char>('a' + i)));
      EXPECT_EQ(records[i].bytes, i == 4 ? 0 : 400 * n);
      expect_plausible_times(records[i], before, after);
      EXPECT_LE(records[i].enqueue_ns, records[i].wait_begin_ns);
      EXPECT_LE(records[i].end_ns, records[i].wait_end_ns)
          << "a wait ends after the result is there";
    }
    EXPECT_TRUE(group.take_records().empty());
  });
}

TEST(Records, OfWorkUnderWayComeLater) {
  std::atomic<bool> rank_1_may_join = false;
  run_ranks(2, [&](ProcessGroup& group) {
    const at::Tensor slow = at::zeros({10});
    if (group.rank() == 1) {
      while (!rank_1_may_join) std::this_thread::yield();
      group.all_reduce(slow, ReduceOp::sum, "slow").wait();
      return;
    }
    Work work = group.all_reduce(slow, ReduceOp::sum, "slow");
    EXPECT_TRUE(group.take_records().empty());
    rank_1_may_join = true;
    work.wait();
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].label, "slow");
  });
}

TEST(Records, StartIsWhenAThreadWasFree) {
  const CommConfig one_thread = {.backend = BackendKind::gloo, .gloo_threads = 1};
  run_ranks(
      2,
      [](ProcessGroup& group) {
        std::vector<at::Tensor> tensors;
        std::vector<Work> works;
        for (int i = 0; i < 20; ++i) {
          tensors.push_back(at::zeros({50'000}));
          works.push_back(group.all_reduce(tensors.back(), ReduceOp::sum, "x"));
        }
        for (auto& work : works) work.wait();
        const auto records = group.take_records();
        ASSERT_EQ(records.size(), 20U);
        for (std::size_t i = 1; i < records.size(); ++i) {  // one at a time
          EXPECT_EQ(records[i].start_ns, std::max(records[i].enqueue_ns, records[i - 1].end_ns));
        }
      },
      one_thread);
}

TEST(Records, AWorkNobodyWaitedForHasNoWaitTimes) {
  run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor tensor = at::zeros({10});
    Work work = group.all_reduce(tensor, ReduceOp::sum, "x");
    group.barrier();
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(records[0].wait_begin_ns, 0);
    EXPECT_EQ(records[0].wait_end_ns, 0);
  });
}

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

FuturePtr future_of_tensors() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
}

void complete(c10::ivalue::Future& future) {
  future.markCompleted(c10::IValue(std::vector<at::Tensor>()));
}

/// Done before it returns: calls without the cost of a network.
class InstantBackend final : public c10d::Backend {
 public:
  InstantBackend() : Backend(0, 1) {}
  const std::string getBackendName() const override { return "instant"; }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    const FuturePtr done = future_of_tensors();
    complete(*done);
    return c10::make_intrusive<FutureWork>(done);
  }
};

/// Whose all-reduces end when a test says so.
class HeldBackend final : public c10d::Backend {
 public:
  HeldBackend() : Backend(0, 1) {}
  const std::string getBackendName() const override { return "held"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    held.push_back(future_of_tensors());
    return c10::make_intrusive<FutureWork>(held.back());
  }
  std::vector<FuturePtr> held;
};

TEST(Records, OfWhatOvertookAnotherDoNotEndBeforeTheyStart) {
  const auto backend = c10::make_intrusive<HeldBackend>();
  ProcessGroup group(backend, make_thread_store(), 1);
  const at::Tensor tensor = at::zeros({10});
  Work first = group.all_reduce(tensor, ReduceOp::sum, "first");
  Work second = group.all_reduce(tensor, ReduceOp::sum, "second");
  complete(*backend->held[1]);
  complete(*backend->held[0]);
  first.wait();
  second.wait();
  const auto records = group.take_records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_LE(records[1].end_ns, records[0].end_ns);
  EXPECT_LE(records[1].start_ns, records[1].end_ns);
}

TEST(Records, AreBoundedIfNobodyTakesThem) {
  ProcessGroup group(c10::make_intrusive<InstantBackend>(), make_thread_store(), 1);
  constexpr int kCalls = 200'000;
  for (int i = 0; i < kCalls; ++i) group.barrier(std::to_string(i));
  const auto records = group.take_records();
  EXPECT_GE(records.size(), 65'536U);
  EXPECT_LE(records.size(), 2 * 65'536U);
  for (std::size_t i = 0; i < records.size(); ++i) {  // the last ones, none missing between
    ASSERT_EQ(records[i].label, std::to_string(kCalls - records.size() + i));
  }
  EXPECT_TRUE(group.take_records().empty());
}

// By the names that every version has, though later ones (torch_versions.h) call them deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void all_gather_and_reduce_scatter(c10d::ProcessGroup& group, at::Tensor& all, at::Tensor& part,
                                   at::Tensor& mine) {
  group._allgather_base(all, mine)->wait();
  group._reduce_scatter_base(part, mine)->wait();
}
#pragma GCC diagnostic pop

TEST(Records, C10dCodeIsRecordedToo) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto c10d_group = group.as_c10d();
    EXPECT_EQ(c10d_group, group.as_c10d());
    EXPECT_EQ(c10d_group->getRank(), group.rank());
    std::vector<at::Tensor> tensors = {at::full({100}, group.rank() + 1.0)};
    c10d_group->allreduce(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({100}, 3.0)));
    c10d_group->broadcast(tensors)->wait();
    auto future = c10d_group->allreduce(tensors)->getFuture();
    future->waitAndThrow();
    EXPECT_TRUE(future->value().isTensorList());
    at::Tensor mine = tensors[0];
    at::Tensor all = at::zeros({200});
    at::Tensor half = at::zeros({50});
    all_gather_and_reduce_scatter(*c10d_group, all, half, mine);
    std::vector<std::vector<at::Tensor>> lists = {{at::zeros({100}), at::zeros({100})}};
    c10d_group->allgather(lists, tensors)->wait();
    const auto records = group.take_records();
    std::vector<std::string> labels;
    for (const auto& record : records)
      labels.push_back(record.label + " " + std::to_string(record.bytes));
    EXPECT_THAT(labels, ElementsAre("c10d.allreduce 400", "c10d.broadcast 400",
                                    "c10d.allreduce 400", "c10d._allgather_base 800",
                                    "c10d._reduce_scatter_base 400", "c10d.allgather 800"));
    EXPECT_GT(records[0].wait_end_ns, 0);
  });
}

}  // namespace
}  // namespace ddprun
