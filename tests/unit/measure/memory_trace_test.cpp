// What tensors are in a step: their categories by their lives, labels in forward and backward, the
// sum that is the allocator's, and what is resident beside them.
#include "ddprun/measure/memory_trace.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <sstream>
#include <thread>

#include "ddprun/measure/memory_account.h"
#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/private_memory.h"
#include "support/matchers.h"

namespace ddprun::memory_trace_test {
namespace {

using testing::Pair;

at::Tensor tensor_of(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

/// A step's account, which `run` is. What `made_before` leaves is there before.
class RecordedStep {
 public:
  template <class Run>
  explicit RecordedStep(const Run& run) {
    const auto counting = CpuMemory::count_here();
    MemoryTrace trace(CpuMemory::here()->shared_from_this());
    const PhaseSubscription subscription(trace);
    {
      const PhaseScope setup(Phase::setup);
      const MemoryScope scope(MemoryCategory::parameters);
      kept_ = tensor_of(1000);
      tensor_of(77);
    }
    trace.begin_step();
    CpuMemory::here()->reset_peak();
    {
      const PhaseScope step(Phase::step);
      run();
    }
    peak_bytes_ = CpuMemory::here()->peak_bytes();
    const int events = trace.events();
    account_.emplace(trace.end_step(), ResidentMemory{},
                     std::vector<MemoryLook>{{.name = "end", .event = events}});
  }

  const MemoryAccount& account() const { return *account_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  /// "category unit operation" of the only block of that size.
  std::string said(std::int64_t bytes) const {
    const auto& blocks = account_->recorded().blocks;
    std::string found;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].bytes != bytes) continue;
      EXPECT_EQ(found, "") << "two of them";
      found = std::string(name_of(account_->category(static_cast<int>(i)))) + ", " +
              blocks[i].place.unit_name() + ", " + blocks[i].operation;
    }
    return found;
  }

 private:
  at::Tensor kept_;
  std::int64_t peak_bytes_ = 0;
  std::optional<MemoryAccount> account_;
};

TEST(MemoryTrace, GivesEachBlockACategoryByItsLife) {
  at::Tensor stays;
  const RecordedStep step([&] {
    at::Tensor data, saved, at_once, later, again;
    {
      const MemoryScope scope(MemoryCategory::data);
      { const MemoryScope inner(MemoryCategory::parameters); }
      data = tensor_of(300);
    }
    {
      const PhaseScope forward(Phase::forward);
      const MemoryLabel unit("layers", 3);
      {
        const MemoryLabel operation("w1w3");
        saved = tensor_of(500);
      }
      at_once = tensor_of(520);
      tensor_of(40'000);
      stays = tensor_of(90);
    }
    {
      const PhaseScope backward(Phase::backward);
      at_once.reset();
      at::Tensor gradient = tensor_of(600);
      {
        const ForwardAgain recorded;
        tensor_of(611);
        again = tensor_of(612);
      }
      std::thread([moved = std::move(saved)] {}).join();  // released elsewhere
    }
    {
      const PhaseScope forward(Phase::forward);
      const MemoryLabel unit("layers", 3);
      const MemoryLabel operation("w1w3");
      later = tensor_of(510);
    }
    {
      const PhaseScope synchronize(Phase::synchronize);
      tensor_of(700);
    }
    const PhaseScope optimizer(Phase::optimizer);
    tensor_of(800);
  });
  EXPECT_EQ(step.said(1000), "parameters, , ");
  EXPECT_EQ(step.said(77), "") << "it was gone before";
  EXPECT_EQ(step.said(300), "data, , ");
  EXPECT_EQ(step.said(500), "saved for backward, layers.3, w1w3");
  EXPECT_EQ(step.said(520), "saved for backward, layers.3, ") << "backward begins with its end";
  EXPECT_EQ(step.said(40'000), "temporary in forward, layers.3, ");
  EXPECT_EQ(step.said(90), "workspace, layers.3, ") << "it outlives the step";
  EXPECT_EQ(step.said(600), "temporary in backward, , ");
  EXPECT_EQ(step.said(611), "temporary in backward, , ");
  EXPECT_EQ(step.said(612), "saved for backward, , ") << "by the second forward";
  EXPECT_EQ(step.said(700), "communication, , ");
  EXPECT_EQ(step.said(800), "workspace, , ");
  EXPECT_EQ(step.account().peak().tensors.sum(), step.peak_bytes());
  EXPECT_EQ(step.peak_bytes(), 1000 + 300 + 500 + 520 + 40'000);
  EXPECT_EQ(step.account().peak_phase(), "forward");
  EXPECT_THAT(step.account().saved("layers.3"), ElementsAre(Pair("", 520), Pair("w1w3", 500)))
      << "of the first forward";
  EXPECT_THAT(step.account().saved("", true), ElementsAre(Pair("", 612)));
  EXPECT_THAT(step.account().units(), ElementsAre("layers.3"));
}

TEST(MemoryTrace, NamesOperatorsShapesAndTheForwardOfABackward) {
  const at::Tensor leaf = at::ones({25, 10}).set_requires_grad(true);
  const RecordedStep step([&] {
    at::Tensor loss;
    {
      const PhaseScope forward(Phase::forward);
      const MemoryLabel unit("head", -1);
      at::Tensor inner;
      {
        const MemoryLabel operation("norm");
        inner = leaf.exp();
      }
      loss = inner.sum();
    }
    const PhaseScope backward(Phase::backward);
    loss.backward();
  });
  std::vector<std::string> said;
  for (const MemoryBlock& block : step.account().recorded().blocks) {
    if (block.bytes != 1000 || block.born_event < 0) continue;
    said.push_back(block.place.unit_name() + ", " + block.operation + ", " + block.shape + ", " +
                   block.dtype);
  }
  ASSERT_GE(said.size(), 2u);
  EXPECT_EQ(said[0], "head, norm: exp, 25 x 10, float32");
  EXPECT_EQ(said[1].find("head, norm: "), 0u) << said[1];
  EXPECT_THAT(step.account().saved("head"), ElementsAre(Pair("norm: exp", 1000), Pair("sum", 4)));
}

TEST(MemoryTrace, LeavesOutTimeThatIsNoPartOfTheStep) {
  const auto counting = CpuMemory::count_here();
  MemoryTrace trace(CpuMemory::here()->shared_from_this());
  const std::int64_t before = trace.time_ns();
  trace.leave_out(1'000'000'000'000);
  EXPECT_LT(trace.time_ns(), before);
}

TEST(MemoryAccount, ExplainsWhatIsResident) {
  const char* const kBlock = reinterpret_cast<const char*>(0x5000);
  RecordedMemory recorded;
  recorded.spans = {{.phase = Phase::step, .begin_ns = 10, .end_ns = 20}};
  recorded.blocks = {{.address = kBlock, .bytes = 400, .scope = MemoryCategory::moments}};
  const ResidentMemory before{.anonymous = 30};
  const ResidentMemory now{.files = 1000,
                           .shared = 50,
                           .heap = 900,
                           .anonymous = 75,
                           .heap_in_use = 600,
                           .heap_ranges = {{0x4000, 0x6000}}};
  const MemoryAccount account(
      std::move(recorded), before,
      {{.name = "end", .time_ns = 20, .event = 0, .resident = now, .workspace_bytes = 20}});
  ASSERT_EQ(account.moments().size(), 2u);
  const MemoryMoment& end = account.moments()[1];
  EXPECT_EQ(account.peak().name, "peak");
  const auto of = [&](MemoryCategory each) { return end.bytes[each]; };
  EXPECT_EQ(of(MemoryCategory::moments), 400);
  EXPECT_EQ(of(MemoryCategory::communication), 50) << "segments beside tensors";
  EXPECT_EQ(of(MemoryCategory::workspace), 20);
  EXPECT_EQ(of(MemoryCategory::library), 1000 + 30 + (900 - 400 - 20));
  EXPECT_EQ(end.library[0].second, 1000 + 30) << end.library[0].first;
  EXPECT_EQ(end.library[1].second, 600 - 400 - 20) << end.library[1].first;
  EXPECT_EQ(end.library[2].second, 900 - 600) << end.library[2].first;
  EXPECT_EQ(end.unexplained(), 75 - 30);
  EXPECT_EQ(end.bytes.sum() + end.unexplained(), end.resident);
}

TEST(MemoryAccount, ExplainsWhatADriverSaysIsUsed) {
  RecordedMemory recorded;
  recorded.spans = {{.phase = Phase::step, .begin_ns = 10, .end_ns = 20}};
  recorded.blocks = {
      {.bytes = 400, .scope = MemoryCategory::moments},
      {.bytes = 50, .born_ns = 12, .died_ns = 13, .born_event = 0, .died_event = 1, .born_in = 0},
      {.bytes = 50, .born_ns = 14, .died_ns = 15, .born_event = 2, .died_event = 3, .born_in = 0}};
  recorded.events = {{12, 1, true}, {13, 1, false}, {14, 2, true}, {15, 2, false}};
  const AllocatorMemory seen{.allocated = 430, .reserved = 600, .used = 1000};
  const MemoryAccount account(std::move(recorded), {},
                              {{.name = "end", .time_ns = 20, .event = 4, .device = seen}});
  EXPECT_TRUE(account.of_device());
  for (const MemoryMoment& moment : account.moments()) {
    SCOPED_TRACE(moment.name);
    EXPECT_EQ(moment.resident, 1000);
    EXPECT_EQ(moment.unexplained(), 30) << "allocated, and never reported";
    EXPECT_EQ(moment.library[0].second, 600 - 30 - moment.tensors.sum()) << "cached";
    EXPECT_EQ(moment.library[1].second, 400) << "context";
  }
  EXPECT_EQ(account.peak().tensors.sum(), 450);
  EXPECT_EQ(account.peak().time_ns, 12) << "the first of two that are as high";
}

TEST(MemoryAccount, TakesWhatIsReservedWhereNoDriverSaysMore) {
  RecordedMemory recorded;
  recorded.spans = {{.phase = Phase::step, .begin_ns = 10, .end_ns = 20}};
  const AllocatorMemory seen{.allocated = 0, .reserved = 600};
  const MemoryAccount account(std::move(recorded), {},
                              {{.name = "end", .time_ns = 20, .event = 0, .device = seen}});
  EXPECT_EQ(account.peak().resident, 600);
  EXPECT_EQ(account.peak().library[1].second, 0);
}

TEST(ResidentMemory, OfATensorIsItsBytesAndAPageAtMost) {
  constexpr std::int64_t kElements = (std::int64_t{5} << 19) + 1;  // 2.5 or 5 huge pages, and a bit
  for (const auto dtype : {at::kShort, at::kFloat}) {
    // Not files: our share of a library's pages grows when another program that has it ends.
    const auto own = [] {
      const ResidentMemory memory = resident_memory();
      return memory.heap + memory.anonymous;
    };
    const auto counting = CpuMemory::count_here();
    const std::int64_t before = own();
    const at::Tensor tensor = allocate_private(kElements, dtype);
    EXPECT_EQ(CpuMemory::here()->bytes(), static_cast<std::int64_t>(tensor.nbytes()));
    tensor.fill_(1);
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    EXPECT_NEAR(own() - before, bytes, 300'000) << "with smaps' own text";
  }
}

TEST(ResidentMemory, IsReadByWhatBacksIt) {
  std::istringstream smaps(
      "00400000-00500000 r-xp 00000000 08:01 12 /usr/bin/ddprun\nRss: 9 kB\nPss: 3 kB\n"
      "01000000-02000000 rw-p 00000000 00:00 0  [heap]\nPss: 5 kB\n"
      "7f0000000000-7f0000010000 rw-s 00000000 00:01 7 /memfd:ddprun (deleted)\nPss: 7 kB\n"
      "7f0004000000-7f0004010000 rw-p 00000000 00:00 0 \nPss: 11 kB\nSwapPss: 100 kB\n"
      "7f0005000000-7f0005010000 rw-p 00000000 00:00 0 \nPss: 13 kB\n"
      "7ffc00000000-7ffc00010000 rw-p 00000000 00:00 0 [stack]\nPss: 17 kB\n");
  const ResidentMemory found = parse_smaps(smaps);
  EXPECT_EQ(found.files, 3 * 1024);
  EXPECT_EQ(found.heap, (5 + 11) * 1024) << "a thread's heap begins at a multiple of 64 MiB";
  EXPECT_EQ(found.shared, 7 * 1024);
  EXPECT_EQ(found.anonymous, (13 + 17) * 1024);
  EXPECT_TRUE(ResidentMemory::within(found.heap_ranges, reinterpret_cast<void*>(0x1000000)));
  EXPECT_FALSE(ResidentMemory::within(found.heap_ranges, reinterpret_cast<void*>(0x2000000)));
  EXPECT_GT(resident_memory().total(), 1 << 20);
}

}  // namespace
}  // namespace ddprun::memory_trace_test
