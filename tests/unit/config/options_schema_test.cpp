// Declared options as JSON Schema, one sort of declaration after the other.
#include "ddprun/config/schema/options_schema.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {
namespace {

enum class Colour { red, blue };
constexpr auto choice_names(Colour) { return std::array{"red", "blue"}; }

/// The property that `declare` makes, as text.
std::string property(const std::function<void(Options&)>& declare) {
  const Schema schema = options_schema(declare);
  EXPECT_EQ(schema["type"], "object");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["properties"].size(), 1u);
  return schema["properties"].begin()->dump();
}

template <class T>
std::string option(T value, const Limits& limits = {}) {
  return property([&](Options& o) { o.option("key", &value, "help", limits); });
}

TEST(OptionsSchema, AnOptionHasItsHelpTypeLimitsAndDefault) {
  EXPECT_EQ(option(true), R"({"description":"help","type":"boolean","default":true})");
  EXPECT_EQ(
      option(std::int64_t{3}, {.min = 1, .max = 1e9}),
      R"({"description":"help","type":"integer","minimum":1,"maximum":1000000000,"default":3})");
  EXPECT_EQ(option(60.0, {.min = 0.1}),
            R"({"description":"help","type":"number","minimum":0.1,"default":60})");
  EXPECT_EQ(option(std::string("a")), R"({"description":"help","type":"string","default":"a"})");
}

TEST(OptionsSchema, WhatWasNotGivenHasNoDefault) {
  EXPECT_EQ(option(std::optional<std::int64_t>(), {.min = 0}),
            R"({"description":"help","type":"integer","minimum":0})");
  EXPECT_EQ(option(std::optional<double>(0.5)),
            R"({"description":"help","type":"number","default":0.5})");
}

TEST(OptionsSchema, NamesAreAnEnum) {
  EXPECT_EQ(option(Colour::blue),
            R"({"description":"help","type":"string","enum":["red","blue"],"default":"blue"})");
  EXPECT_EQ(option(std::string("a"), {.one_of = {"a", "b"}}),
            R"({"description":"help","type":"string","enum":["a","b"],"default":"a"})");
}

TEST(OptionsSchema, OneValueStandsForAListOfOne) {
  EXPECT_EQ(option(std::vector<double>{0.9, 1}, {.max = 1}),
            R"({"description":"help","anyOf":[{"type":"number","maximum":1},)"
            R"({"type":"array","items":{"type":"number","maximum":1}}],"default":[0.9,1.0]})");
}

void declare_step(Options& o, std::int64_t& step) { o.option("step", &step, "how far"); }

TEST(OptionsSchema, ASectionMayBeEmpty) {
  std::int64_t step = 1;
  EXPECT_EQ(property([&](Options& o) {
              o.section("walk", "on foot", [&](Options& walk) { declare_step(walk, step); });
            }),
            R"({"description":"on foot","type":["object","null"],"properties":{"step":)"
            R"({"description":"how far","type":"integer","default":1}},)"
            R"("additionalProperties":false})");
}

TEST(OptionsSchema, AListOfMappingsMayBeOneMapping) {
  std::vector<std::int64_t> steps;
  const std::string element =
      R"({"type":"object","properties":{"step":{"description":"how far","type":"integer",)"
      R"("default":1}},"additionalProperties":false})";
  EXPECT_EQ(property([&](Options& o) {
              o.list("walks", "on foot", sections(&steps, std::int64_t{1}, declare_step));
            }),
            R"({"description":"on foot","anyOf":[)" + element + R"(,{"type":"array","items":)" +
                element + R"(}],"default":[]})");
}

TEST(OptionsSchema, AChoiceMayBeAMappingOfOneOptionAtLeast) {
  Colour colour = Colour::red;
  std::int64_t step = 1;
  const auto inside = [&](Options& o) { declare_step(o, step); };
  const Schema schema =
      options_schema([&](Options& o) { o.choice_or_section("colour", &colour, "of it", inside); });
  const Schema& alternatives = schema["properties"]["colour"]["anyOf"];
  EXPECT_EQ(alternatives[0]["enum"].dump(), R"(["red","blue"])");
  EXPECT_EQ(alternatives[1]["type"], "object");
  EXPECT_EQ(alternatives[1]["minProperties"], 1);
  EXPECT_TRUE(alternatives[1]["properties"].contains("step"));
  EXPECT_EQ(schema["properties"]["colour"]["default"], "red");
}

}  // namespace
}  // namespace ddprun
