// docs/measurement.md cannot rot: its tables are those of the declared quantities.
//
// After a change of a declaration, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/unit_result --gtest_filter=MeasurementDoc.*
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun {
namespace {

const std::filesystem::path kFile =
    std::filesystem::path(DDPRUN_SOURCE_DIR) / "docs/measurement.md";

std::string read_file() {
  std::ostringstream text;
  text << std::ifstream(kFile).rdbuf();
  return text.str();
}

/// Compares what stands between `marker` and the next end marker with `table`, or replaces it.
void expect_table(const std::string& marker, const std::string& table) {
  std::string text = read_file();
  const std::size_t at = text.find(marker);
  ASSERT_NE(at, std::string::npos) << marker;
  const std::size_t begin = at + marker.size();
  const std::size_t size = text.find("<!-- end -->", begin) - begin;
  if (std::getenv("DDPRUN_UPDATE_DOCS") != nullptr) {
    std::ofstream(kFile) << text.replace(begin, size, table);
  } else {
    EXPECT_EQ(text.substr(begin, size), table) << "rewrite it with DDPRUN_UPDATE_DOCS=1";
  }
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
      EXPECT_FALSE(quantity.formula().empty()) << quantity.key;
    }
  }
}

}  // namespace
}  // namespace ddprun
