// What verify calls a failure, and how it says so.
#include "runner/report/verify_report.h"

#include <cmath>

#include "support/matchers.h"

namespace ddprun {
namespace {

using nlohmann::json;

json differences(double gradient, double update, double parameter) {
  const auto largest = [](double value) {
    return json{{"value", value}, {"mean", value / 4}, {"parameter", "head"}};
  };
  return {{"gradient", largest(gradient)},
          {"update", largest(update)},
          {"parameter", largest(parameter)}};
}

/// Two steps and one parameter; the second step and the parameter have these differences.
json found(double loss, double gradient, double update, double parameter) {
  const auto step = [](int index, double loss, const json& of) {
    return json{{"step", index},
                {"losses", {loss, loss}},
                {"loss", loss},
                {"loss_one_process", 4.0},
                {"differences", of}};
  };
  const json worst = differences(gradient, update, parameter);
  json out = {{"steps", {step(0, 4.0, nullptr), step(1, loss, worst)}},
              {"faults", json::array()},
              {"bound", 1e-5}};
  out["parameters"] = json::array({worst});
  return out;
}

TEST(VerifyReport, PassesWithinTheBounds) {
  const json judged = judge(found(4.00001, 1e-6, 0, 1e-3), {});
  EXPECT_TRUE(judged.at("passed")) << judged.dump();
  EXPECT_TRUE(judged.at("steps")[1].at("passed"));
  EXPECT_THAT(verify_text(judged, {}),
              AllOf(HasSubstr("passed: largest difference in 2 steps"),
                    HasSubstr("gradient max     mean"), HasSubstr("1e-06  2.5e-07")));
}

TEST(VerifyReport, NamesTheFirstStepOfEachFailure) {
  const json judged = judge(found(4.1, 2e-5, 1e-3, 1e-3), {.parameter = 1e-4});
  EXPECT_FALSE(judged.at("passed"));
  EXPECT_TRUE(judged.at("steps")[0].at("passed"));
  EXPECT_FALSE(judged.at("steps")[1].at("passed"));
  EXPECT_FALSE(judged.at("parameters")[0].at("passed"));
  EXPECT_THAT(
      judged.at("reasons"),
      ElementsAre("step 1: the loss is 4.1 on 2 ranks and 4 in one process",
                  "step 1: the gradient of head differs by 2e-05 (bound 1e-05)",
                  "step 1: from equal gradients, the relative update of head differs by 0.001 "
                  "(bound 2.38e-07)",
                  "step 1: after the update, head differs by 0.001 (bound 0.0001)"));
  EXPECT_THAT(verify_text(judged, {}), AllOf(HasSubstr("✗"), HasSubstr("FAILED")));
}

TEST(VerifyReport, WhatIsNoNumberFailsEvenWithoutABound) {
  EXPECT_FALSE(judge(found(4, 0, 0, std::nan("")), {}).at("passed"));
  EXPECT_FALSE(judge(found(std::nan(""), 0, 0, 0), {.gradient = 1e30}).at("passed"));
  const json wide = judge(found(4, 0.1, 0, 0), {.gradient = 0.2});
  EXPECT_TRUE(wide.at("passed")) << "not the ranks' bound";
  EXPECT_EQ(wide.at("bounds").at("gradient"), 0.2);
  json through_text = json::parse(found(4, std::nan(""), 0, 0).dump());
  EXPECT_FALSE(judge(through_text, {.gradient = 1e30}).at("passed"));
}

TEST(VerifyReport, AFaultOfTheRanksFails) {
  json with_fault = found(4, 0, 0, 0);
  with_fault["faults"] = {"step 3: parameters_equal: ..."};
  const json judged = judge(with_fault, {});
  EXPECT_FALSE(judged.at("passed"));
  EXPECT_EQ(judged.at("reasons")[0], "step 3: parameters_equal: ...");
}

}  // namespace
}  // namespace ddprun
