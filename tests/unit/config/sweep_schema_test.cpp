// What a sweep may hold, by the properties of what it sweeps over.
#include "ddprun/config/schema/options_schema.h"

#include <cstdint>
#include <string>
#include <vector>

#include "support/matchers.h"

namespace ddprun {
namespace {

std::vector<std::string> keys_of(const Schema& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// A trip: its name, and two ways of going.
Schema trip() {
  std::string name;
  std::int64_t steps = 1;
  std::vector<double> metres;
  return options_schema([&](Options& o) {
    o.option("name", &name, "of the trip");
    o.section("walk", "on foot", [&](Options& walk) { walk.option("steps", &steps, "how far"); });
    o.list("swims", "in water", sections(&metres, 25.0, [](Options& swim, double& far) {
             swim.option("metres", &far, "how far");
           }));
  });
}

TEST(SweepSchema, HasEveryKeyPathAtEveryDepth) {
  const Schema paths = swept_properties(trip()["properties"], "", "trip");
  EXPECT_THAT(keys_of(paths), ElementsAre("name", "walk", "walk.steps", "swims", "swims.metres"));
  EXPECT_THAT(keys_of(swept_properties(trip()["properties"], "trip.", "trip")),
              Contains("trip.walk.steps"));
}

TEST(SweepSchema, ValuesAreThoseOfTheKeyAndOnlyIntegersHaveARange) {
  const Schema paths = swept_properties(trip()["properties"], "", "trip");
  EXPECT_EQ(paths["name"].dump(),
            R"({"description":"of the trip","allOf":[{"$ref":"#/definitions/swept"}],)"
            R"("items":{"$ref":"#/definitions/trip/properties/name"}})");
  EXPECT_EQ(paths["walk.steps"].dump(),
            R"({"description":"how far","allOf":[{"$ref":"#/definitions/swept_numbers"}],)"
            R"("items":{"$ref":"#/definitions/trip/properties/walk/properties/steps"},)"
            R"("properties":{"from":)"
            R"({"$ref":"#/definitions/trip/properties/walk/properties/steps"}}})");
}

TEST(SweepSchema, EveryReferenceLeadsToTheSchemaOfItsKey) {
  const Schema whole = {{"definitions", {{"trip", trip()}}}};
  const Schema paths = swept_properties(trip()["properties"], "", "trip");
  for (const auto& [path, values] : paths.items()) {
    const std::string reference = values["items"]["$ref"];
    const Schema& target = whole.at(Schema::json_pointer(reference.substr(1)));
    EXPECT_EQ(target["description"], values["description"]) << path;
  }
}

TEST(SweepSchema, ARangeBeginsSomewhere) {
  const Schema range = sweep_definitions()["swept_numbers"];
  EXPECT_EQ(range["required"].dump(), R"(["from"])");
  EXPECT_THAT(keys_of(range["properties"]), ElementsAre("from", "to", "factor"));
}

}  // namespace
}  // namespace ddprun
