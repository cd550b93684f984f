// docs/measurement.md cannot rot: its tables are those of the declared quantities.
//
// After a change of a declaration, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/unit_profile --gtest_filter=MeasurementDoc.*
#include <gtest/gtest.h>

#include <set>

#include "ddprun/experiments/kinds.h"
#include "support/page_tables.h"

namespace ddprun {
namespace {

void expect_table(const std::string& marker, const std::string& table) {
  test::expect_table(DDPRUN_SOURCE_DIR "/docs/measurement.md", marker, table);
}

std::string over_ranks(OverRanks how) {
  switch (how) {
    case OverRanks::mean:
      return "mean over r";
    case OverRanks::max:
      return "max over r";
    case OverRanks::sum:
      return "sum over r";
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

/// How its figure is made, as the page has it.
std::string formula(const Quantity& quantity) {
  std::string text = quantity.meaning;
  if (quantity.of_steps()) {
    const std::string samples = over_ranks(quantity.over_ranks);
    text = over_steps(quantity, quantity.of == nullptr
                                    ? samples
                                    : samples + " of `" + quantity.of->key + "`(r, i)");
  }
  return quantity.remark.empty() ? text : text + ": " + quantity.remark;
}

std::string column(const Quantity& quantity) {
  return quantity.title.empty() ? "–" : quantity.title;
}

/// A kind's samples with their figures, and its other figures, as two tables.
std::string samples_markdown(const ExperimentKind& kind) {
  std::string out = "| sample | unit | meaning | column | its figure |\n|---|---|---|---|---|\n";
  for (const Quantity& q : kind.quantities()) {
    if (!q.measured()) continue;
    out += "| `" + q.key + "` | " + q.unit + " | " + q.meaning + " | " + column(q) + " | " +
           formula(q) + " |\n";
  }
  return out;
}

/// Empty if all figures are those of samples.
std::string figures_markdown(const ExperimentKind& kind) {
  std::string rows;
  for (const Quantity& q : kind.quantities()) {
    if (q.measured()) continue;
    rows += "| " + column(q) + " | `" + q.key + "` | " + q.unit + " | " + formula(q) + " |\n";
  }
  return rows.empty() ? ""
                      : "| column | in result.json | unit | formula |\n|---|---|---|---|\n" + rows;
}

TEST(MeasurementDoc, TablesAreThoseOfTheCode) {
  for (const RunnableKind* kind : experiment_kinds()) {
    expect_table("<!-- samples: " + kind->name() + " -->\n", samples_markdown(*kind));
    const std::string figures = figures_markdown(*kind);
    if (!figures.empty()) expect_table("<!-- figures: " + kind->name() + " -->\n", figures);
  }
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
