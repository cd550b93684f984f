// docs/measurement.md cannot rot: its tables are those of the declared quantities.
//
// After a change of a declaration, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/unit_result --gtest_filter=MeasurementDoc.*
#include <gtest/gtest.h>

#include <set>

#include "ddprun/experiments/arithmetic/arithmetic_kind.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "ddprun/experiments/training/training.h"
#include "support/page_tables.h"

namespace ddprun {
namespace {

void expect_table(const std::string& marker, const std::string& table) {
  test::expect_table(DDPRUN_SOURCE_DIR "/docs/measurement.md", marker, table);
}

std::string over_ranks(OverRanks how) {
  switch (how) {
    case OverRanks::mean:
      return "mean over r of";
    case OverRanks::max:
      return "max over r of";
    case OverRanks::sum:
      return "sum over r of";
  }
  return "";
}

std::string over_steps(const Quantity& quantity, const std::string& of_step) {
  switch (quantity.over_steps) {
    case OverSteps::median:
      return (quantity.spread ? "median and standard deviation (n - 1) over i of "
                              : "median over i of ") +
             of_step;
    case OverSteps::mean:
      return "mean over i of " + of_step;
    case OverSteps::std:
      return "standard deviation (n - 1) over i of " + of_step;
    case OverSteps::p99:
      return "99th percentile over i of " + of_step;
    case OverSteps::number:
      return "N, the measured steps that have a sample";
    case OverSteps::sum:
      return "sum over all steps, warm-up included, of " + of_step;
    case OverSteps::ends:
      return of_step + (quantity.optional ? " of the first step that has it, warm-up included → of "
                                            "the last that has it"
                                          : " of the very first step, warm-up included → of the "
                                            "last step");
    case OverSteps::count:
      return "steps, warm-up included, in which it is not 0 on some rank";
  }
  return "";
}

/// The formula of its figure, as the page has it.
std::string formula(const Quantity& quantity) {
  std::string text = quantity.meaning;
  if (quantity.of_steps()) {
    const std::string& sample = quantity.of == nullptr ? quantity.key : quantity.of->key;
    text = over_steps(quantity, over_ranks(quantity.over_ranks) + " `" + sample + "`(r, i)");
  }
  return quantity.remark.empty() ? text : text + ": " + quantity.remark;
}

/// The samples and the figures of a kind as two tables.
std::string samples_markdown(const ExperimentKind& kind) {
  std::string out = "| sample | unit | meaning |\n|---|---|---|\n";
  for (const Quantity& q : kind.quantities()) {
    if (q.measured()) out += "| `" + q.key + "` | " + q.unit + " | " + q.meaning + " |\n";
  }
  return out;
}

std::string figures_markdown(const ExperimentKind& kind) {
  std::string out = "| column | in result.json | unit | formula |\n|---|---|---|---|\n";
  for (const Quantity& q : kind.quantities()) {
    out += "| " + (q.title.empty() ? "–" : q.title) + " | `" + q.key + "` | " + q.unit + " | " +
           formula(q) + " |\n";
  }
  return out;
}

TEST(MeasurementDoc, TablesAreThoseOfTheCode) {
  expect_table("<!-- samples -->\n", samples_markdown(training()));
  expect_table("<!-- figures -->\n", figures_markdown(training()));
  expect_table("<!-- samples: collectives -->\n", samples_markdown(collectives()));
  expect_table("<!-- figures: collectives -->\n", figures_markdown(collectives()));
  expect_table("<!-- samples: attention -->\n", samples_markdown(attention_kind()));
  expect_table("<!-- figures: attention -->\n", figures_markdown(attention_kind()));
  expect_table("<!-- samples: precision -->\n", samples_markdown(precision_study()));
  expect_table("<!-- figures: precision -->\n", figures_markdown(precision_study()));
  expect_table("<!-- samples: arithmetic -->\n", samples_markdown(arithmetic()));
  expect_table("<!-- figures: arithmetic -->\n", figures_markdown(arithmetic()));
}

TEST(MeasurementDoc, EveryQuantityIsExplained) {
  for (const RunnableKind* kind : experiment_kinds()) {
    std::set<std::string> keys, titles;
    for (const Quantity& quantity : kind->quantities()) {
      EXPECT_TRUE(keys.insert(quantity.key).second) << quantity.key << " is declared twice";
      if (!quantity.title.empty()) {
        EXPECT_TRUE(titles.insert(quantity.title).second) << quantity.title;
      }
      EXPECT_FALSE(quantity.meaning.empty() && quantity.of == nullptr) << quantity.key;
      EXPECT_FALSE(formula(quantity).empty()) << quantity.key;
    }
  }
}

}  // namespace
}  // namespace ddprun
