// What diff calls rounding, and which difference it names.
#include "runner/compare/lockstep_report.h"

#include "support/matchers.h"

namespace ddprun::test_lockstep {
namespace {

using nlohmann::json;

json formats(const char* name, double spacing) {
  const json format = {{"name", name}, {"spacing", spacing}};
  return {{"forward", format}, {"backward", format}, {"update", format}};
}

json lead() { return {{"formats", formats("float32", 0x1p-23)}}; }

json difference(const char* phase, const char* tensor, const json& ulp) {
  return {
      {"phase", phase},   {"unit", "head"},
      {"tensor", tensor}, {"difference", ulp.is_null() ? ulp : json(ulp.get<double>() * 0x1p-23)},
      {"size", 1.0},      {"element", 1234},
      {"lead", 0.5},      {"other", ulp.is_null() ? ulp : json(0.25)}};
}

json found(const std::vector<json>& second_step) {
  return {{"formats", formats("float32", 0x1p-23)},
          {"steps",
           {{{"step", 0}, {"differences", json::array({difference("forward", "loss", 1)})}},
            {{"step", 1}, {"differences", second_step}}}}};
}

std::string text(const json& judged) { return lockstep_text(judged, "a", "b", {}); }

TEST(LockstepReport, UpToTheBoundItIsRounding) {
  const json judged = judge_lockstep(
      found({difference("backward", "w", 128), difference("update", "w", 16)}), lead(), {});
  EXPECT_TRUE(judged.at("passed"));
  EXPECT_THAT(text(judged),
              AllOf(HasSubstr("b equals a up to rounding for 2 steps"),
                    HasSubstr("forward 1 ulp of float32 (the loss, step 0); backward 128 ulp of "
                              "float32 (the gradient of w, step 1); update 16 ulp")));
}

TEST(LockstepReport, NamesTheFirstAndNotTheLargest) {
  const json judged = judge_lockstep(
      found({difference("backward", "v", 200), difference("backward", "w", 900)}), lead(), {});
  EXPECT_FALSE(judged.at("passed"));
  EXPECT_EQ(judged.at("parts").at("tensor"), "v");
  EXPECT_EQ(judged.at("phases").at("backward").at("largest").at("tensor"), "w");
  EXPECT_THAT(text(judged),
              HasSubstr("b parts from a: step 1, backward, unit head: the gradient of v differs by "
                        "200 ulp of float32 (bound 128): element 1,234 is 0.25, and was 0.5"));
}

TEST(LockstepReport, TheCoarserFormatCounts) {
  json coarse = found({difference("backward", "w", 128)});
  coarse["formats"] = formats("bfloat16", 0x1p-7);
  const json judged = judge_lockstep(coarse, lead(), {});
  EXPECT_TRUE(judged.at("passed"));
  EXPECT_EQ(judged.at("phases").at("backward").at("format").at("name"), "bfloat16");
  EXPECT_EQ(judged.at("phases").at("backward").at("bound"), 8.0);
  const json turned = judge_lockstep(found({}), {{"formats", formats("float8", 0x1p-3)}}, {});
  EXPECT_EQ(turned.at("phases").at("forward").at("bound"), 3.0);
}

TEST(LockstepReport, WhatIsNoNumberParts) {
  const json judged =
      judge_lockstep(found({difference("backward", "v", 9), difference("backward", "w", nullptr),
                            difference("backward", "x", 9000)}),
                     lead(), 1e9);
  EXPECT_FALSE(judged.at("passed"));
  EXPECT_THAT(text(judged), HasSubstr("the gradient of w differs by no number of float32"));
  EXPECT_EQ(judged.at("phases").at("backward").at("largest").at("tensor"), "w");
}

TEST(LockstepReport, TheBoundIsTheUsersButOfUpdates) {
  const json one = found({difference("backward", "w", 2)});
  EXPECT_FALSE(judge_lockstep(one, lead(), 1.5).at("passed"));
  const json update = found({difference("update", "w", 17)});
  EXPECT_FALSE(judge_lockstep(update, lead(), 1e9).at("passed"));
}

}  // namespace
}  // namespace ddprun::test_lockstep
