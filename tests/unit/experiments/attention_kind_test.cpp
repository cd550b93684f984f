// A call of attention as it is measured: its proof, its account of memory, its figures.
#include <map>

#include "ddprun/config/registry.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plugin_choice.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

constexpr RepeatConfig kShort{.warmup = 1, .count = 3, .seconds = 10};

std::shared_ptr<Attention> attention_of(const std::string& folder, const std::string& yaml) {
  static std::map<std::string, PluginRegistry> registries;
  const PluginRegistry& registry =
      registries.try_emplace(folder, std::vector<std::filesystem::path>{folder}).first->second;
  return make_attention(registry, test::choice_of(PluginKind::attention, yaml));
}

std::shared_ptr<Attention> built(const std::string& name) {
  return attention_of(test::plugin_folder(), "{name: " + name + "}");
}

std::shared_ptr<Attention> planted(const std::string& options) {
  return attention_of(DDPRUN_BUILD_DIR "/tests/plugins/planted_attention",
                      "{name: planted, " + options + "}");
}

RankResult measure(Attention& attention, const AttentionConfig& config) {
  RankResult result;
  test::run_ranks(1, [&](ProcessGroup& group) {
    measure_attention(
        config, kShort, attention, group, [](const Sample&) {}, result);
  });
  return result;
}

/// The names of the checks that failed.
std::vector<std::string> failed(const RankResult& result) {
  std::vector<std::string> names;
  for (const Check& check : result.checks) {
    if (check.status == CheckStatus::failed) names.push_back(check.name);
  }
  return names;
}

std::vector<std::string> checked(const RankResult& result) {
  std::vector<std::string> names;
  for (const Check& check : result.checks) names.push_back(check.name);
  return names;
}

constexpr AttentionConfig kSmall{.batch = 2, .heads = 2, .length = 48, .head_dim = 16};

/// A run draws other inputs each time: rounding must stay far from the bound with any of them.
TEST(AttentionKind, NoDrawOfInputsBringsARightAttentionNearTheBound) {
  AttentionConfig config = kSmall;
  for (const char* name : {"eager", "sdpa", "flash"}) {
    const auto attention = built(name);
    for (const AttentionType type : {AttentionType::float32, AttentionType::bfloat16}) {
      config.dtype = type;
      const ErrorBounds bounds = error_bounds(type).times(1. / 3);
      for (std::uint64_t seed = 0; seed < 300; ++seed) {
        EXPECT_EQ(find_wrong_attention(config, *attention, cpu_device(), bounds, seed, {}), "")
            << name << " " << name_of(type) << ", seed " << seed;
      }
    }
  }
}

TEST(AttentionKind, FewRowsAreOffTogetherByChance) {
  const AttentionConfig few{.length = 4, .head_dim = 8, .dtype = AttentionType::bfloat16};
  const auto eager = built("eager");
  const ErrorBounds bounds = error_bounds(few.dtype).times(1. / 2);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    EXPECT_EQ(find_wrong_attention(few, *eager, cpu_device(), bounds, seed, {}), "") << seed;
  }
}

TEST(AttentionKind, WhatIsRightIsProvedAndMeasured) {
  for (const char* name : {"eager", "sdpa", "flash"}) {
    for (const AttentionType type : {AttentionType::float32, AttentionType::bfloat16}) {
      for (const bool causal : {true, false}) {
        SCOPED_TRACE(testing::Message() << name << " " << name_of(type) << " " << causal);
        AttentionConfig config = kSmall;
        config.dtype = type;
        config.causal = causal;
        config.keys = 70;
        const RankResult result = measure(*built(name), config);
        EXPECT_THAT(checked(result), ElementsAre("output", "dq", "dk", "dv"));
        EXPECT_THAT(failed(result), ElementsAre());
        ASSERT_EQ(result.samples.size(), 4u) << "warm-up included";
        const Sample& last = result.samples.back();
        const AttentionKind& q = attention_kind();
        EXPECT_GT(last[q.forward_ms], 0);
        EXPECT_NEAR(last[q.time_ms], last[q.forward_ms] + last[q.backward_ms], 1e-6);
        EXPECT_GT(last[q.error], 0);
        EXPECT_LT(last[q.error], error_bounds(type).largest / 2) << "the bound has room";
        for (const Quantity* of : {&q.output_error, &q.dq_error, &q.dk_error, &q.dv_error}) {
          EXPECT_GE(last[q.error], last[*of]) << of->key;
        }
        EXPECT_TRUE(result.samples[0].warmup);
        EXPECT_FALSE(result.samples[1].warmup);
      }
    }
  }
}

TEST(AttentionKind, OneWrongElementOfOneResultIsFoundAndNothingIsTimed) {
  for (const char* fault : {"output", "dq", "dk", "dv"}) {
    for (const char* row : {"0", "20", "47"}) {
      SCOPED_TRACE(std::string(fault) + " in row " + row);
      const auto wrong = planted("fault: " + std::string(fault) + ", row: " + row + ", add: 0.001");
      const RankResult result = measure(*wrong, kSmall);
      EXPECT_THAT(failed(result), ElementsAre(fault));
      EXPECT_TRUE(result.samples.empty());
      for (const Check& check : result.checks) {
        if (check.name != fault) continue;
        EXPECT_THAT(check.detail, HasSubstr("batch 1, head 1, row " + std::string(row)));
      }
    }
  }
  EXPECT_THAT(failed(measure(*planted("fault: nothing"), kSmall)), ElementsAre());
}

TEST(AttentionKind, WhatIsNoNumberIsWrong) {
  const RankResult result = measure(*planted("fault: dq, row: 3, not_a_number: true"), kSmall);
  EXPECT_THAT(failed(result), ElementsAre("dq"));
  EXPECT_THAT(result.checks.at(1).detail, HasSubstr("largest error nan"));
}

TEST(AttentionKind, AWrongElementIsFoundInTypesOf16BitsToo) {
  AttentionConfig config = kSmall;
  config.dtype = AttentionType::bfloat16;
  EXPECT_THAT(failed(measure(*planted("fault: dk, row: 5, add: 1"), config)), ElementsAre("dk"));
}

// A factor of all rows is no rounding, which goes both ways.
TEST(AttentionKind, AFactorOfAResultIsFoundInTypesOf16BitsToo) {
  AttentionConfig config = kSmall;
  for (const AttentionType type : {AttentionType::bfloat16, AttentionType::float16}) {
    config.dtype = type;
    for (const char* fault : {"output", "dq", "dk", "dv"}) {
      SCOPED_TRACE(std::string(fault) + " in " + name_of(type));
      const auto wrong = planted("fault: " + std::string(fault) + ", times: 0.985, add: 0");
      EXPECT_THAT(failed(measure(*wrong, config)), ElementsAre(fault));
      EXPECT_THAT(find_wrong_attention(config, *wrong, cpu_device(), error_bounds(type), 1, {}),
                  AllOf(StartsWith(std::string(fault) + " is 0.98"),
                        HasSubstr(" times the right one, all rows together, 0.00")));
    }
    for (const char* factor : {"0.95", "1.02"}) {
      const auto wrong = planted("fault: scale, scaled_by: " + std::string(factor));
      EXPECT_THAT(failed(measure(*wrong, config)), IsSupersetOf({"output", "dq", "dk"}));
    }
  }
}

// Above 2,048 rows are sampled; the last one is always among them.
TEST(AttentionKind, LongSequencesAreSampled) {
  const AttentionConfig config{.length = 2100, .head_dim = 8};
  const RankResult right = measure(*planted("fault: nothing"), config);
  EXPECT_THAT(checked(right), ElementsAre("output", "dq", "dk", "dv"));
  EXPECT_THAT(failed(right), ElementsAre());
  EXPECT_THAT(right.checks[0].detail, HasSubstr("64 of 2,100 rows"));
  for (const char* fault : {"output", "dq", "dk", "dv"}) {
    const auto wrong = planted("fault: " + std::string(fault) + ", row: 2099, add: 0.01");
    EXPECT_THAT(failed(measure(*wrong, config)), ElementsAre(fault));
  }
}

TEST(AttentionKind, GradientsOfKeysAreLeftOutWhereTheyWouldTakeTooLong) {
  const RankResult result = measure(*built("flash"), {.length = 3, .keys = 16385, .head_dim = 8});
  EXPECT_THAT(checked(result), ElementsAre("output", "dq"));
  EXPECT_THAT(failed(result), ElementsAre());
  EXPECT_THAT(result.checks[0].detail, HasSubstr("all 3 rows")) << "there are no 64";
}

TEST(AttentionKind, ForwardAloneHasNoGradients) {
  AttentionConfig config = kSmall;
  config.passes = AttentionPasses::forward;
  const RankResult result = measure(*planted("fault: dq"), config);
  EXPECT_THAT(checked(result), ElementsAre("output"));
  EXPECT_THAT(failed(result), ElementsAre());
  const Sample& last = result.samples.back();
  EXPECT_FALSE(last.find(attention_kind().backward_ms));
  EXPECT_EQ(last[attention_kind().time_ms], last[attention_kind().forward_ms]);
}

// What the formulas say is what the allocator counts.
TEST(AttentionKind, TheAccountIsWhatWasMeasured) {
  const AttentionKind& q = attention_kind();
  for (const char* name : {"eager", "sdpa", "flash"}) {
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(testing::Message() << name << " " << causal);
      const AttentionConfig call{
          .batch = 2, .heads = 2, .length = 512, .head_dim = 32, .causal = causal};
      const RankResult result = measure(*built(name), call);
      const nlohmann::json known = attention_work(call, *built(name));
      const Sample& sample = result.samples.back();
      EXPECT_EQ(sample[q.before_backward_bytes], known.at("before_backward_formula_bytes"));
      if (std::string(name) != "eager") continue;  // the others have scratch memory
      EXPECT_NEAR(sample[q.peak_bytes] / known.at("peak_formula_bytes").get<double>(), 1, 0.05);
    }
  }
}

TEST(AttentionKind, WithoutAFormulaTheAccountHasNone) {
  const nlohmann::json known = attention_work(kSmall, *planted("fault: nothing"));
  EXPECT_EQ(known.at("inputs_bytes"), 3 * 4 * 48 * 16 * 4);
  EXPECT_FALSE(known.contains("scores_bytes"));
  EXPECT_FALSE(known.contains("peak_formula_bytes"));
}

TEST(AttentionKind, OperationsAreCountedAsFlashAttention2Does) {
  AttentionConfig config{.batch = 2, .heads = 3, .length = 100, .head_dim = 16, .causal = false};
  config.passes = AttentionPasses::forward;
  EXPECT_EQ(attention_flops(config), 4.0 * 6 * 100 * 100 * 16);
  config.passes = AttentionPasses::forward_backward;
  EXPECT_EQ(attention_flops(config), 3.5 * 4 * 6 * 100 * 100 * 16);
  config.causal = true;
  EXPECT_EQ(attention_flops(config), 3.5 * 4 * 6 * 5000 * 16);
  config.keys = 10;
  EXPECT_EQ(attention_flops(config), 3.5 * 4 * 6 * (50 + 90 * 10) * 16)
      << "most queries see all 10 keys";
}

/// A run of one rank whose samples hold these.
Run made_up(std::int64_t length, double time_ms, double before_backward_bytes) {
  Run run;
  run.kind = &attention_kind();
  run.config = {{"attention", {{"name", "a"}, {"tile", 64}}},
                {"attention_call",
                 {{"batch", 8},
                  {"heads", 1},
                  {"length", length},
                  {"keys", 0},
                  {"head_dim", 64},
                  {"causal", true},
                  {"dtype", "float32"},
                  {"passes", "forward_backward"}}}};
  run.work = {{"flops", 2e9}};
  RankResult rank;
  rank.samples.assign(3, Sample(attention_kind()));
  for (std::size_t i = 0; i < 3; ++i) {
    rank.samples[i].step = static_cast<std::int64_t>(i);
    rank.samples[i][attention_kind().time_ms] = time_ms;
    rank.samples[i][attention_kind().product_tflops] = 0.5;
    rank.samples[i][attention_kind().before_backward_bytes] = before_backward_bytes;
  }
  run.ranks = {rank};
  return run;
}

TEST(AttentionKind, FiguresFollowFromTimeAndPeak) {
  auto run = made_up(1024, 20, 1e6);
  const RunStatistics statistics(run);
  EXPECT_DOUBLE_EQ(*statistics.figure(attention_kind().tflops).value, 0.1);
  EXPECT_DOUBLE_EQ(*statistics.figure(attention_kind().peak_share).value, 0.2);
  EXPECT_EQ(attention_kind().facts(run)[0].second, "a, tile 64");
  EXPECT_EQ(attention_kind().facts(run)[3].second, "1024 x 1024");
  run.config["attention_call"]["keys"] = 70;
  EXPECT_EQ(attention_kind().facts(run)[3].second, "1024 x 70");
}

TEST(AttentionKind, ASentenceSaysHowMemoryGrows) {
  const auto shorter = made_up(1000, 1, 3e6);
  const auto longer = made_up(4000, 9, 48e6);
  const RunStatistics first(longer), second(shorter);
  const auto findings = attention_kind().findings({&first, &second});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text, HasSubstr("from length 1000 to 4000 memory before backward grows "
                                          "from 3 to 48 MB, as length^2.00"));
  EXPECT_DOUBLE_EQ(findings[0].value["power"].get<double>(), 2);
  EXPECT_TRUE(attention_kind().findings({&first, &first}).empty());
  auto full = made_up(4000, 9, 48e6);
  full.config["attention_call"]["causal"] = false;
  const RunStatistics other(full);
  EXPECT_TRUE(attention_kind().findings({&other, &second}).empty()) << "they are of two lines";
}

}  // namespace
}  // namespace ddprun
