// A YAML tree as JSON: each plain scalar has the type that an option would read it as.
#include "ddprun/config/config_node.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/config/plain_scalar.h"

namespace ddprun {
namespace {

std::string json_of(const std::string& yaml) { return to_json(parse_yaml(yaml, "a.yaml")).dump(); }

TEST(ConfigJson, KeepsTheTree) {
  EXPECT_EQ(json_of("{a: 1, b: 0.5, c: true, d: null, e: 'text', f: '1', g: [1e-3, x], h: {}}"),
            R"({"a":1,"b":0.5,"c":true,"d":null,"e":"text","f":"1","g":[0.001,"x"],"h":{}})");
}

TEST(ConfigJson, ReadsPlainScalarsAsYamlsCoreSchemaDoes) {
  EXPECT_EQ(json_of("[true, True, TRUE, false, False, FALSE]"),
            "[true,true,true,false,false,false]");
  EXPECT_EQ(json_of("[null, Null, NULL, ~]"), "[null,null,null,null]");
  EXPECT_EQ(json_of("[1e3, 1E3, .5, +7, -0.25, 0x1f, 0o17, 1.]"),
            "[1000,1000,0.5,7,-0.25,31,15,1.0]");
  EXPECT_EQ(json_of("[yes, no, on, off, 0xg, 0o8, 0x, 1_000, 1e, nan, inf, tRUE]"),
            R"(["yes","no","on","off","0xg","0o8","0x","1_000","1e","nan","inf","tRUE"])");
  EXPECT_EQ(json_of("[007, -010]"), R"(["007","-010"])") << "options refuse them";
  EXPECT_EQ(json_of("[.inf, -.inf, .nan]"), R"([".inf","-.inf",".nan"])") << "JSON has none";
}

TEST(ConfigJson, QuotedScalarsAreText) {
  EXPECT_EQ(json_of("['1', \"true\", '~', '']"), R"(["1","true","~",""])");
}

TEST(PlainScalar, NumbersReadBack) {
  EXPECT_EQ(parse_integer("1e6"), 1'000'000);
  EXPECT_EQ(parse_integer("1.0"), std::nullopt);
  EXPECT_EQ(parse_integer("1e-1"), std::nullopt);
  EXPECT_EQ(parse_number("0x10"), 16);
  EXPECT_EQ(parse_number("0xffffffffffffffff"), HUGE_VAL);
  EXPECT_EQ(parse_integer("0xffffffffffffffff"), std::nullopt);
  EXPECT_EQ(parse_integer("010"), std::nullopt);
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_bool("yes"), std::nullopt);
  EXPECT_EQ(parse_bool("False"), false);
  for (const double value : {0.1, 1e-8, 1e6, 1.0 / 3.0, -2.5e300}) {
    EXPECT_EQ(parse_number(number_text(value)), value);
  }
}

}  // namespace
}  // namespace ddprun
