// The data of every collective is compared element by element, and the figures follow from times.
#include "ddprun/experiments/collectives/collectives.h"

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"
#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun::collectives_test {
namespace {

constexpr RepeatConfig kShort{.warmup = 1, .count = 3, .seconds = 10};

/// Measures each of `configs` in turn on one group of ranks; `look` gets what all ranks found, in
/// rank order, and the number of the configuration.
void measure_all(int ranks, const std::vector<CollectivesConfig>& configs, BackendKind backend,
                 const std::function<void(const std::vector<RankResult>&, std::size_t)>& look,
                 RepeatConfig repeat = kShort) {
  std::vector<std::vector<RankResult>> results(configs.size(), std::vector<RankResult>(ranks));
  test::run_ranks(ranks,
                  [&](ProcessGroup& group) {
                    for (std::size_t i = 0; i < configs.size(); ++i) {
                      const auto trial = make_collective_trial(configs[i], group);
                      RankResult& result = results[i][group.rank()];
                      result.rank = group.rank();
                      measure_trial(
                          *trial, group, repeat, [](const Sample&) {}, result);
                    }
                  },
                  {.backend = backend, .timeout_s = 30});
  for (std::size_t i = 0; i < configs.size(); ++i) look(results[i], i);
}

/// Says what is measured, for a failure.
std::string text_of(const CollectivesConfig& c) {
  return std::string(name_of(c.collective)) + " " + name_of(c.dtype) + " " + name_of(c.op) +
         (c.in_place ? " in place " : " out of place ") + name_of(c.memory);
}

void expect_right(const std::vector<RankResult>& results, const std::string& what) {
  for (const RankResult& rank : results) {
    ASSERT_EQ(rank.checks.size(), 2u);
    for (const Check& check : rank.checks) {
      EXPECT_EQ(check.status, CheckStatus::passed) << what << ": " << check.detail;
    }
    EXPECT_TRUE(rank.samples[0].warmup);
    EXPECT_FALSE(rank.samples[1].warmup);
    EXPECT_LE(rank.timeline.at(0).collectives.size(), 1U) << "no barrier before it";
    EXPECT_EQ(rank.samples.front()[collectives().wrong], 0);
    EXPECT_FALSE(rank.samples[1].find(collectives().wrong));
    EXPECT_EQ(rank.samples.back()[collectives().wrong], 0);
    for (const Sample& sample : rank.samples) EXPECT_GT(sample[collectives().time_us], 0);
  }
}

TEST(CollectivesData, IsRightForEachCollectiveInEachPlaceAndMemory) {
  std::vector<CollectivesConfig> configs = {{.collective = CollectiveKind::barrier}};
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    for (const bool in_place : {true, false}) {
      for (const BufferMemory memory : {BufferMemory::ordinary, BufferMemory::group}) {
        configs.push_back(
            {.collective = kind, .bytes = 600'000, .in_place = in_place, .memory = memory});
      }
    }
  }
  for (const BackendKind backend : {BackendKind::gloo, BackendKind::shm}) {
    measure_all(3, configs, backend, [&](const std::vector<RankResult>& found, std::size_t i) {
      expect_right(found, text_of(configs[i]));
      double longest_us = 0;
      for (const RankResult& rank : found) {
        longest_us = std::max(longest_us, rank.samples.back()[collectives().time_us]);
      }
      if (configs[i].bytes == 600'000) {
        EXPECT_GT(longest_us, 5) << "600 kB at 120 GB/s";
      }
    });
  }
}

TEST(CollectivesData, IsRightForEachTypeAndOperationThatABackendHas) {
  for (const BackendKind backend : {BackendKind::gloo, BackendKind::shm}) {
    std::vector<CollectivesConfig> configs;
    for (std::size_t type = 0; type < kChoiceNames<ElementType>.size(); ++type) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
          const auto dtype = static_cast<ElementType>(type);
          if (!backend_lacks(backend, kind, scalar_type(dtype), op).empty()) continue;
          configs.push_back({.collective = kind, .bytes = 4096, .dtype = dtype, .op = op});
        }
      }
    }
    EXPECT_GT(configs.size(), 30u);
    measure_all(2, configs, backend, [&](const std::vector<RankResult>& found, std::size_t i) {
      expect_right(found, std::string(name_of(backend)) + " " + text_of(configs[i]));
    });
  }
}

TEST(CollectivesData, EachDamagedElementIsCounted) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const CollectivesConfig config{.bytes = 400'000, .memory = BufferMemory::ordinary};
    const auto trial = make_collective_trial(config, group);
    trial->fill(0);
    trial->call();
    EXPECT_EQ(trial->wrong(0), 0);
    EXPECT_EQ(trial->compared(), 100'000);
    EXPECT_GT(trial->wrong(1), 90'000) << "data of another round is wrong";
    trial->call();  // adds the sums up once more
    EXPECT_GT(trial->wrong(0), 90'000);
  });
}

/// Gloo, but for an all-reduce that leaves one element of rank 1 as it was, and an all-gather that
/// mixes up the last two slices.
class ForgetfulBackend final : public c10d::Backend {
 public:
  explicit ForgetfulBackend(c10::intrusive_ptr<c10d::Backend> gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}
  const std::string getBackendName() const override { return "forgetful"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return gloo_->getBackendOptions(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    const at::Tensor last = tensors[0].narrow(0, tensors[0].numel() - 1, 1);
    const at::Tensor before = last.clone();
    const auto work = gloo_->allreduce(tensors, options);
    work->wait();
    if (getRank() == 1) last.copy_(before - 1);
    return work;
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    const auto work = gloo_->_allgather_base(output, input, options);
    work->wait();
    const at::Tensor slices = output.view({getSize(), -1});
    const at::Tensor last = slices[getSize() - 1].clone();
    slices[getSize() - 1].copy_(slices[getSize() - 2]);
    slices[getSize() - 2].copy_(last);
    return work;
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return gloo_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    return gloo_->barrier(options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

std::vector<RankResult> measure_forgetful(const CollectivesConfig& config) {
  const auto store = make_thread_store();
  std::vector<RankResult> results(2);
  const auto connect_forgetful = [&](int rank) {
    auto gloo = make_gloo_backend(store, rank, 2, "a test", "127.0.0.1", {.timeout_s = 30});
    return std::make_unique<ProcessGroup>(c10::make_intrusive<ForgetfulBackend>(std::move(gloo)),
                                          store, 2);
  };
  test::run_threads(2, connect_forgetful, [&](ProcessGroup& group) {
    const auto trial = make_collective_trial(config, group);
    measure_trial(
        *trial, group, kShort, [](const Sample&) {}, results[group.rank()]);
  });
  return results;
}

TEST(CollectivesData, ABackendThatMixesRanksUpHasNoRightElement) {
  for (const RankResult& rank :
       measure_forgetful({.collective = CollectiveKind::all_gather, .bytes = 8000})) {
    EXPECT_EQ(rank.samples.back().find(collectives().wrong), 2000);
  }
}

TEST(CollectivesData, ABackendThatForgetsAnElementFailsOnItsRankBeforeAndAfter) {
  const std::vector<RankResult> results = measure_forgetful({.bytes = 1000});
  const auto wrong = [](const Sample& sample) { return sample.find(collectives().wrong).value(); };
  EXPECT_EQ(wrong(results[0].samples.back()), 0);
  EXPECT_EQ(wrong(results[1].samples.front()), 1);
  EXPECT_EQ(wrong(results[1].samples.back()), 1);
  const Proof proof = summarize_checks({results[0].checks, results[1].checks});
  EXPECT_EQ(proof.status, CheckStatus::failed);
  EXPECT_THAT(proof.checks[0].detail, HasSubstr("1 of 250 elements are wrong"));
}

TEST(Collectives, ATimeOrTheCountEndsTheMeasurementButNotBeforeThreeSamples) {
  const auto samples = [](const RepeatConfig& repeat) {
    std::vector<std::size_t> counts;
    const auto look = [&counts](const std::vector<RankResult>& found, std::size_t) {
      for (const RankResult& rank : found) counts.push_back(rank.samples.size());
    };
    measure_all(2, {{.bytes = 64}}, BackendKind::gloo, look, repeat);
    return counts;
  };
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(samples({.warmup = 2, .count = 1000, .seconds = 0}), (Counts{5, 5}));
  EXPECT_EQ(samples({.warmup = 0, .count = 4, .seconds = 60}), (Counts{4, 4}));
}

/// A run of four ranks that took `us` for `bytes` of a collective.
Run run_of(const char* collective, double bytes, double us) {
  Run run;
  run.kind = &collectives();
  run.config = {{"world", {{"backend", "gloo"}}},
                {"collectives",
                 {{"collective", collective},
                  {"dtype", "float32"},
                  {"op", "sum"},
                  {"in_place", true},
                  {"memory", "ordinary"}}}};
  run.work = {{"bytes", bytes}, {"count", bytes / 4}};
  for (int rank = 0; rank < 4; ++rank) {
    RankResult result;
    result.rank = rank;
    for (int step = 0; step < 3; ++step) {
      result.samples.emplace_back(collectives());
      result.samples.back().step = step;
      result.samples.back()[collectives().time_us] = rank == 3 ? us : us / 2;
      result.samples.back()[collectives().ranks_per_core] = 1;
    }
    run.ranks.push_back(result);
  }
  return run;
}

double busbw(const char* collective) {
  const auto run = run_of(collective, 4e6, 1000);  // algbw 4 GB/s
  return RunStatistics(run).figure(collectives().busbw_gb_per_s).value.value();
}

TEST(Collectives, BusBandwidthHasTheFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(busbw("all_reduce"), 4 * 2 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(busbw("reduce_scatter"), 4 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(busbw("all_gather"), 4 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(busbw("broadcast"), 4);
  const auto barrier = run_of("barrier", 0, 50);
  EXPECT_FALSE(RunStatistics(barrier).figure(collectives().busbw_gb_per_s).value);
}

TEST(Collectives, TheTimeIsThatOfTheSlowestRank) {
  auto run = run_of("all_reduce", 4e6, 1000);
  run.ranks[3].samples[2][collectives().time_us] = 1400;
  const auto figure = [&run](const Quantity& of) { return RunStatistics(run).figure(of).value; };
  EXPECT_EQ(figure(collectives().time_us), 1000);
  EXPECT_NEAR(figure(collectives().mean_us).value(), 3400.0 / 3, 1e-9);
  EXPECT_NEAR(figure(collectives().p99_us).value(), 1392, 1e-9) << "position 1.98";
  EXPECT_EQ(figure(collectives().samples), 3);
  EXPECT_EQ(figure(collectives().algbw_gb_per_s), 4);
}

TEST(Collectives, WhatIsWrongIsThatOfAllRanksAndOfTheWarmUpToo) {
  auto run = run_of("all_reduce", 4e6, 1000);
  for (RankResult& rank : run.ranks) {
    rank.samples[0].warmup = true;
    for (const int index : {0, 2}) rank.samples[index][collectives().wrong] = rank.rank;
  }
  EXPECT_EQ(RunStatistics(run).figure(collectives().wrong).value, 2 * (1 + 2 + 3));
}

std::vector<Finding> findings_of(const std::vector<ddprun::Run>& all) {
  const std::vector<RunStatistics> statistics(all.begin(), all.end());
  std::vector<const RunStatistics*> runs;
  for (const RunStatistics& each : statistics) runs.push_back(&each);
  return collectives().findings(runs);
}

TEST(Collectives, ALineIsFittedToEachBackendAndCollective) {
  std::vector<ddprun::Run> all;
  for (const double bytes : {1e3, 1e5, 1e7}) {
    all.push_back(run_of("all_reduce", bytes, 40 + bytes / 2e3));
    all.push_back(run_of("broadcast", bytes, 10 + bytes / 4e3));
  }
  const std::vector<Finding> findings = findings_of(all);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].text, HasSubstr("gloo, all_reduce, float32, sum"));
  EXPECT_THAT(findings[0].text, HasSubstr("latency 40 "));
  EXPECT_NEAR(findings[0].value["latency_us"].get<double>(), 40, 1e-6);
  EXPECT_NEAR(findings[0].value["us_per_byte"].get<double>(), 1 / 2e3, 1e-9);
  EXPECT_NEAR(findings[1].value["latency_us"].get<double>(), 10, 1e-6);
  EXPECT_EQ(findings[1].value["collective"], "broadcast");
  for (ddprun::Run& run : all) run.emulated = true;
  EXPECT_THAT(findings_of(all), IsEmpty()) << "times of a shared GPU";
}

TEST(Collectives, ALatencyIsNeverLessThanNothing) {
  std::vector<ddprun::Run> all;
  for (const auto& [bytes, us] : {std::pair{1e3, 0.2}, {1e5, 60.0}, {1e7, 5000.0}}) {
    all.push_back(run_of("all_reduce", bytes, us));
  }
  const std::vector<Finding> findings = findings_of(all);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text, Not(HasSubstr("latency -")));
  EXPECT_THAT(findings[0].text, HasSubstr("no latency"));
  all[0] = run_of("all_reduce", 1e3, 0.7);  // 0.118 +- 0.260, as in the test of fit_line()
  all[1] = run_of("all_reduce", 1e5, 80);
  EXPECT_THAT(findings_of(all)[0].text,
              HasSubstr("latency below 0.64 µs, bandwidth 1.71 ± 0.4 GB/s;"));
}

}  // namespace
}  // namespace ddprun::collectives_test
