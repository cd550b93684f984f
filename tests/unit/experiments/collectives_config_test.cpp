// What an experiment of collectives may say, and what is refused before a rank starts.

#include "ddprun/config/registry.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "support/experiment_fixture.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

const std::string kLeastCollectives =
    "experiment: collectives\n"
    "world: {size: 2, backend: gloo}\n";

class CollectivesConfigTest : public ExperimentTest {
 protected:
  /// The error of a file whose section `collectives` has this content.
  std::string refused(const std::string& content) {
    return error(kLeastCollectives + "collectives: {" + content + "}\n");
  }
};

/// A kind, the least that a file of it says without its section, that section, and keys of others.
struct OwnKeys {
  const ExperimentKind& kind;
  std::string least, section;
  std::size_t plugins;
  std::vector<std::string> others;
};

TEST_F(CollectivesConfigTest, AKindSaysNothingButItsOwn) {
  for (const OwnKeys& each : {OwnKeys{collectives(),
                                      kLeastCollectives,
                                      "collectives: {bytes: 8}",
                                      0,
                                      {"train", "strategy", "plugin_path"}},
                              {attention_kind(),
                               "experiment: attention\nattention: eager\n",
                               "attention_call: {}",
                               1,
                               {"strategy", "precision", "collectives"}},
                              {precision_study(),
                               "experiment: precision\n",
                               "demonstration: {name: dtypes}",
                               0,
                               {"strategy", "precision", "attention", "train"}}}) {
    const std::string name = each.kind.name(), text = each.least + each.section + "\n";
    SCOPED_TRACE(name);
    const Experiment e = load_one(text);
    EXPECT_EQ(e.kind, &each.kind);
    EXPECT_EQ(e.plugins.size(), each.plugins);
    const std::string resolved = to_yaml(resolve(e));
    EXPECT_THAT(resolved, AllOf(HasSubstr("experiment: " + name + "\n"), Not(HasSubstr("train:"))));
    EXPECT_EQ(to_yaml(resolve(load_one(resolved))), resolved);
    for (const std::string& key : each.others) {
      EXPECT_THAT(error(text + key + ": {}\n"),
                  HasSubstr("experiment " + name + " has no `" + key + "`"));
    }
    const std::string section = each.section.substr(0, each.section.find(':'));
    EXPECT_THAT(error(each.least),
                HasSubstr("experiment " + name + " needs the section `" + section + "`"));
  }
}

TEST_F(CollectivesConfigTest, AnotherKindsSectionsAreErrors) {
  const std::string text = kLeastCollectives + "collectives: {bytes: 8}\n";
  EXPECT_THAT(error(text + "train: {steps: 3}\n"),
              AllOf(HasSubstr("where: run.yaml:4:1"), HasSubstr("it is of experiment training")));
  EXPECT_THAT(error(text + "trian: {steps: 3}\n"), HasSubstr("unknown key 'trian'"));
  EXPECT_THAT(error(kLeast + "repeat: {count: 3}\n"),
              HasSubstr("experiment training has no `repeat`"));
  EXPECT_THAT(error("experiment: colectives\n"),
              AllOf(HasSubstr("colectives"), HasSubstr("training, collectives")));
}

TEST_F(CollectivesConfigTest, SizesAreWholeElementsAndEqualSlices) {
  CollectivesConfig c{.bytes = 1000};
  EXPECT_EQ(c.elements(3), 250);
  EXPECT_EQ(c.buffer_bytes(3), 1000);
  c.in_place = false;
  EXPECT_EQ(c.buffer_bytes(3), 2000);
  c.collective = CollectiveKind::all_gather;
  EXPECT_EQ(c.elements(3), 249) << "83 of each rank";
  EXPECT_EQ(c.buffer_bytes(3), 996 + 332);
  c.collective = CollectiveKind::barrier;
  EXPECT_EQ(c.elements(3), 0);
  EXPECT_THAT(refused("bytes: 0"), HasSubstr("'bytes' in collectives is out of range"));
  EXPECT_THAT(refused("bytes: -4"), HasSubstr("'bytes' in collectives is out of range"));
  EXPECT_THAT(refused("bytes: 3"), HasSubstr("no room for an element of each rank"));
  EXPECT_THAT(refused("bytes: 4, collective: all_gather"), HasSubstr("expected: at least 8"));
  EXPECT_THAT(error(kLeastCollectives + "collectives: {}\nrepeat: {seconds: -1}\n"),
              HasSubstr("'seconds' in repeat is out of range"));
}

TEST_F(CollectivesConfigTest, WhatWouldHaveNoEffectIsAnError) {
  EXPECT_THAT(refused("collective: barrier, bytes: 8"),
              HasSubstr("collectives.bytes has no effect with collectives.collective barrier"));
  EXPECT_THAT(refused("collective: broadcast, op: max"),
              HasSubstr("collectives.op has no effect with collectives.collective broadcast"));
  EXPECT_THAT(error("experiment: collectives\ncollectives: {}\n"),
              HasSubstr("measures a backend that is named"));
}

TEST_F(CollectivesConfigTest, WhatABackendLacksIsRefused) {
  EXPECT_THAT(refused("dtype: int32, op: avg"), HasSubstr("backend gloo has no avg of int32"));
  const std::string shm = "experiment: collectives\nworld: {size: 2, backend: shm}\n";
  EXPECT_THAT(error(shm + "collectives: {dtype: float16}\n"),
              HasSubstr("backend shm has no reduction of float16"));
  EXPECT_EQ(error(shm + "collectives: {dtype: float16, collective: all_gather}\n"), "no error");
  const std::string mpi = "experiment: collectives\nworld: {size: 2, backend: mpi}\n";
  EXPECT_THAT(error(mpi + "collectives: {dtype: bfloat16}\n"),
              HasSubstr("backend mpi has no reduction of bfloat16"));
  EXPECT_THAT(error(mpi + "collectives: {dtype: int64, op: avg}\n"),
              HasSubstr("backend mpi has no avg of int64"));
  EXPECT_EQ(error(mpi + "collectives: {dtype: bfloat16, collective: broadcast}\n"), "no error");
}

TEST_F(CollectivesConfigTest, WhatCouldNotBeVerifiedIsRefused) {
  EXPECT_EQ(pattern_levels({.dtype = ElementType::float32}, 8), 250);
  EXPECT_EQ(pattern_levels({.dtype = ElementType::bfloat16}, 8), 32);
  EXPECT_EQ(pattern_levels({.dtype = ElementType::bfloat16, .op = ReduceOp::avg}, 8), 4);
  EXPECT_EQ(pattern_levels({.dtype = ElementType::bfloat16, .op = ReduceOp::max}, 512), 250);
  EXPECT_THAT(error("experiment: collectives\nworld: {size: 17, backend: gloo}\n"
                    "collectives: {dtype: bfloat16, op: avg}\n"),
              HasSubstr("the data could not be verified"));
}

TEST_F(CollectivesConfigTest, ARangeOfSizesIsTheListOfItsValues) {
  const ExperimentFile file =
      load(kLeastCollectives +
           "collectives: {}\n"
           "sweep: {collectives.bytes: {from: 1000, to: 1e5, factor: 10}}\n");
  ASSERT_EQ(file.experiments.size(), 3u);
  EXPECT_EQ(file.experiments[2].as<CollectivesConfig>().bytes, 100'000);
  EXPECT_EQ(file.experiments[1].label, "collectives.bytes=10000");
  const auto range = [&](const std::string& text) {
    return error(kLeastCollectives + "collectives: {}\nsweep: {collectives.bytes: " + text + "}\n");
  };
  EXPECT_THAT(range("{from: 9, to: 8, factor: 2}"), HasSubstr("has no value"));
  EXPECT_THAT(range("{from: 0, to: 8, factor: 2}"), HasSubstr("out of range"));
  EXPECT_THAT(range("{from: 1, to: 8, factor: 1}"), HasSubstr("out of range"));
  EXPECT_THAT(range("{from: 1, to: 8, fctor: 2}"), HasSubstr("unknown key 'fctor'"));
}

TEST_F(CollectivesConfigTest, MoreBuffersThanMemoryAreNotForThisMachine) {
  Experiment e = load_one(kLeastCollectives + "collectives: {bytes: 900000000000}\n");
  const PluginRegistry registry({});
  EXPECT_THROW(collectives().check_machine(e, registry, 2), ConfigError);
  e.as<CollectivesConfig>().bytes = 1000;
  EXPECT_NO_THROW(collectives().check_machine(e, registry, 2));
}

}  // namespace
}  // namespace ddprun
