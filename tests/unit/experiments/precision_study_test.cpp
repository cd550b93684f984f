// The demonstrations of precision: exact figures, dtypes off the tensors, what a file may say.
#include "ddprun/experiments/precision/precision_study.h"

#include <map>

#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

TEST(Accumulation, GivesTheFourSumsOfTheCourse) {
  const std::map<SumTypes, double> sums = {
      {SumTypes::float32, 10.0001335144043},
      {SumTypes::float16, 9.953125},
      {SumTypes::float16_to_float32, 10.0021362304688},
      {SumTypes::converted_float16_to_float32, 10.0021362304688}};
  for (const auto& [types, sum] : sums) {
    const DemonstrationConfig config{.sum = types};
    const Accumulated tensors = accumulate_by_tensors(config, c10::kCPU);
    const Accumulated scalars = accumulate_by_scalars(config);
    EXPECT_NEAR(tensors.sum, sum, 1e-12) << name_of(types);
    EXPECT_EQ(tensors.sum, scalars.sum) << name_of(types);
    EXPECT_EQ(tensors.addend, scalars.addend) << name_of(types);
  }
}

TEST(Accumulation, RoundsTheAddendToItsOwnType) {
  EXPECT_EQ(accumulate_by_tensors({.sum = SumTypes::float32}, c10::kCPU).addend, 0.01F);
  for (const SumTypes types : {SumTypes::float16, SumTypes::float16_to_float32}) {
    EXPECT_EQ(accumulate_by_tensors({.sum = types}, c10::kCPU).addend, 0.01000213623046875);
  }
  // A sum in float16 stands still where half of its last place is above the addend.
  const DemonstrationConfig many{.sum = SumTypes::float16, .count = 100'000};
  EXPECT_EQ(accumulate_by_scalars(many).sum, 32);
}

TEST(AutocastDtypes, AreReadOffTheTensors) {
  for (const AutocastType type : {AutocastType::float16, AutocastType::bfloat16}) {
    const AutocastDtypes found = measure_autocast(type, c10::kCPU);
    const std::map<std::string, std::string> dtypes(found.tensors.begin(), found.tensors.end());
    for (const char* wide : {"parameters", "loss", "gradients"}) {
      EXPECT_EQ(dtypes.at(wide), "float32") << wide;
    }
    for (const char* narrow : {"fc1", "ReLU", "logits"}) {
      EXPECT_EQ(dtypes.at(narrow), name_of(type)) << narrow;
    }
    // The CPU's autocast has layer norm in none of its lists.
    EXPECT_EQ(dtypes.at("layer norm"), name_of(type));
    EXPECT_TRUE(found.finite);
    EXPECT_TRUE(found.fc1_by_hand);
  }
}

class PrecisionConfigTest : public ExperimentTest {
 protected:
  std::string refused(const std::string& content) {
    return error("experiment: precision\ndemonstration: {" + content + "}\n");
  }
};

TEST_F(PrecisionConfigTest, WhatWouldHaveNoEffectIsAnError) {
  EXPECT_THAT(
      refused("autocast: bfloat16"),
      HasSubstr("demonstration.autocast has no effect with demonstration.name accumulation"));
  for (const char* option : {"sum: float16", "addend: 0.5", "count: 3"}) {
    EXPECT_THAT(refused(std::string("name: dtypes, ") + option),
                HasSubstr("has no effect with demonstration.name dtypes"));
  }
  EXPECT_THAT(refused("count: 0"), HasSubstr("'count' in demonstration is out of range"));
  EXPECT_THAT(refused("sum: float8"), HasSubstr("'sum' in demonstration cannot be"));
  EXPECT_THAT(error("experiment: precision\ndemonstration: {}\nworld: {size: 2}\n"),
              HasSubstr("experiment precision is of one rank"));
}

}  // namespace
}  // namespace ddprun
