// A schema as text: short parts on one line, and the same JSON.
#include "ddprun/config/schema/options_schema.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ddprun/config/registry.h"
#include "ddprun/config/schema/experiment_schema.h"
#include "ddprun/experiments/kinds.h"

namespace ddprun {
namespace {

TEST(SchemaLines, WhatFitsStandsOnOneLine) {
  EXPECT_EQ(lines_of({{"a", 1}, {"b", Schema::array({1, 2})}}), R"({"a":1,"b":[1,2]})"
                                                                "\n");
  const std::string text(105, 'x');
  EXPECT_EQ(lines_of({{"a", Schema::array({text, 2})}, {"b", 1}}),
            "{\n \"a\": [\"" + text + "\",2],\n \"b\": 1\n}\n");
}

TEST(SchemaLines, AreTheSameJson) {
  const Schema schema = experiment_schema(experiment_kinds(), PluginRegistry({}));
  const std::string lines = lines_of(schema);
  EXPECT_EQ(Schema::parse(lines), schema);
  EXPECT_GT(std::ranges::count(lines, '\n'), 100);
}

}  // namespace
}  // namespace ddprun
