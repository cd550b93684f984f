// Lanes of collectives, and which part of the ranks' waiting is exposed.
#include "ddprun/profile/step_timeline.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

CollectiveRecord collective(std::int64_t start, std::int64_t end, Interval wait = {}) {
  return {.label = "x",
          .start_ns = start,
          .end_ns = end,
          .wait_begin_ns = wait.begin,
          .wait_end_ns = wait.end};
}

TEST(Lanes, AreAsManyAsRanAtATime) {
  EXPECT_THAT(lanes_of({}), IsEmpty());
  EXPECT_THAT(lanes_of({collective(0, 10), collective(5, 20), collective(10, 12),
                        collective(12, 30), collective(15, 16)}),
              ElementsAre(0, 1, 0, 0, 2));
}

TEST(StepTimeline, EndsWithThePhaseOrCollectiveThatEndsLast) {
  StepTimeline step{.begin_ns = 5, .phases = {{"backward", 5, 20}, {"forward", 5, 9}}};
  EXPECT_EQ(step.end_ns(), 20);
  step.collectives = {collective(10, 28), collective(11, 12)};
  EXPECT_EQ(step.end_ns(), 28);
}

TEST(Waits, AreExposedAsFarAsEachRankHasThem) {
  const StepTimeline early{
      .begin_ns = 0,
      .phases = {{"backward", 0, 10}, {"synchronize", 10, 30}},
      .collectives = {collective(10, 18, {10, 18}), collective(18, 28, {18, 28})}};
  const StepTimeline late{
      .begin_ns = 100,
      .phases = {{"backward", 100, 115}, {"synchronize", 115, 129}},
      .collectives = {collective(115, 118, {115, 118}), collective(118, 128, {118, 128})}};
  const std::vector<Waits> waits = waits_of({&early, &late});
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_THAT(waits[0].skew, ElementsAre(Interval{10, 15}, Interval{28, 29}));
  EXPECT_THAT(waits[0].exposed, ElementsAre(Interval{15, 28}, Interval{29, 30}));
  EXPECT_THAT(waits[1].skew, IsEmpty());
  EXPECT_THAT(waits[1].exposed, ElementsAre(Interval{115, 129}));
  EXPECT_EQ(union_length(waits[0].exposed), union_length(waits[1].exposed));
}

TEST(Waits, HaveNoUpdatesInThem) {
  const StepTimeline rank{.phases = {{"synchronize", 10, 30}, {"update", 15, 20}},
                          .collectives = {collective(0, 12, {10, 12})}};
  EXPECT_THAT(waits_of({&rank})[0].exposed, ElementsAre(Interval{10, 15}, Interval{20, 30}));
}

TEST(Waits, InForwardCountToo) {
  const StepTimeline rank{.phases = {{"forward", 0, 30}},
                          .collectives = {collective(2, 8, {5, 8})}};
  EXPECT_THAT(waits_of({&rank})[0].exposed, ElementsAre(Interval{5, 8}));
}

TEST(Waits, OfDifferentNumbersOfCollectivesAreComparedAsAWhole) {
  const StepTimeline one{.phases = {{"synchronize", 10, 20}},
                         .collectives = {collective(10, 20, {10, 20})}};
  const StepTimeline other{.phases = {{"synchronize", 10, 16}}};
  const std::vector<Waits> waits = waits_of({&one, &other});
  EXPECT_THAT(waits[0].skew, ElementsAre(Interval{10, 14}));
  EXPECT_THAT(waits[0].exposed, ElementsAre(Interval{14, 20}));
  EXPECT_THAT(waits[1].exposed, ElementsAre(Interval{10, 16}));
  EXPECT_THAT(waits_of({&other, &one})[1].skew, ElementsAre(Interval{10, 14})) << "in any order";
}

TEST(Waits, OfNobodyAreNone) { EXPECT_THAT(waits_of({}), IsEmpty()); }

}  // namespace
}  // namespace ddprun
