// What an experiment of attention may say, and what is refused before a rank starts.
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "support/experiment_fixture.h"
#include "support/matchers.h"
#include "support/plugin_registry.h"

namespace ddprun {
namespace {

const std::string kLeastAttention = "experiment: attention\nattention: eager\n";

class AttentionConfigTest : public ExperimentTest {
 protected:
  /// The error of a file whose section `attention_call` has this content.
  std::string refused(const std::string& content) {
    return error(kLeastAttention + "attention_call: {" + content + "}\n");
  }
};

TEST_F(AttentionConfigTest, HasAsManyKeysAsQueriesAndOneRank) {
  const std::string text = kLeastAttention + "attention_call: {length: 77}\n";
  EXPECT_EQ(load_one(text).as<AttentionConfig>().sizes().keys, 77);
  EXPECT_THAT(error("experiment: attention\nattention_call: {}\n"),
              HasSubstr("attention is missing"));
  EXPECT_THAT(
      error(text + "world: {size: 2}\n"),
      AllOf(HasSubstr("experiment attention measures one rank"), HasSubstr("world.size 2")));
}

TEST_F(AttentionConfigTest, LimitsAreThoseOfSizes) {
  EXPECT_THAT(refused("length: 0"), HasSubstr("'length' in attention_call is out of range"));
  EXPECT_THAT(refused("batch: -1"), HasSubstr("'batch' in attention_call is out of range"));
  EXPECT_THAT(refused("head_dim: 0"), HasSubstr("'head_dim' in attention_call is out of range"));
  EXPECT_THAT(refused("dtype: int8"), HasSubstr("float32, bfloat16, float16"));
  EXPECT_THAT(refused("lenght: 8"), HasSubstr("unknown key 'lenght'"));
  const std::string text = kLeastAttention + "attention_call: {}\n";
  EXPECT_THAT(error(text + "world: {memory_limit_gb: -1}\n"),
              HasSubstr("'memory_limit_gb' in world is out of range"));
  EXPECT_THAT(error(text + "world: {device: cuda, memory_limit_gb: 8}\n"),
              HasSubstr("world.memory_limit_gb limits the memory of the host"));
}

class AttentionOnThisMachine : public AttentionConfigTest {
 protected:
  Experiment planned(const std::string& name, const std::string& more) {
    return load_one("experiment: attention\nattention: " + name + "\n" + more);
  }
  void check(const Experiment& e) { attention_kind().check_machine(e, test::registry(), 1); }
};

TEST_F(AttentionOnThisMachine, WhatAPluginLacksIsRefused) {
  const Experiment e = planned("flash", "attention_call: {dtype: float16}\n");
  EXPECT_THAT(test::error_of([&] { attention_kind().check_plugins(e, test::registry()); }),
              HasSubstr("does not compute in"));
  EXPECT_NO_THROW(attention_kind().check_plugins(
      planned("sdpa", "attention_call: {dtype: float16}\n"), test::registry()));
}

TEST_F(AttentionOnThisMachine, MoreThanItsMemoryIsNotForThisMachine) {
  const std::string large = "attention_call: {length: 1000000}\n";  // scores of 4 TB
  EXPECT_THAT(test::error_of([&] { check(planned("eager", large)); }),
              testing::HasSubstr("would take more than this machine's free memory"));
  EXPECT_NO_THROW(check(planned("flash", large)));
  EXPECT_NO_THROW(check(planned("eager", large + "world: {memory_limit_gb: 0.5}\n")))
      << "it runs until its memory ends";
  EXPECT_THROW(check(planned("flash", "attention_call: {length: 1e7, batch: 65536}\n")),
               ConfigError);
}

}  // namespace
}  // namespace ddprun
