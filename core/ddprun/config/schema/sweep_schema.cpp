// Walks the properties of a schema, as key paths walk through a document.
#include "ddprun/config/schema/options_schema.h"

#include <algorithm>

#include "ddprun/config/sweep.h"

namespace ddprun {

namespace {

constexpr const char* kValues = "swept";
constexpr const char* kValuesOrRange = "swept_numbers";

/// Whether a schema, or one of its alternatives, takes integers, of which ranges are made.
bool takes_numbers(const Schema& schema) {
  const std::string type = schema.value("type", Schema()).dump();
  if (type == "\"integer\"" || type == "\"number\"") return true;
  if (!schema.contains("anyOf")) return false;
  return std::ranges::any_of(schema["anyOf"],
                             [](const Schema& each) { return takes_numbers(each); });
}

void add_paths(const Schema& schema, const std::string& where, const std::string& pointer,
               Schema& out);

/// `pointer` leads to `schema`.
void add_paths_within(const Schema& schema, const std::string& path, const std::string& pointer,
                      Schema& out) {
  if (schema.contains("properties")) {
    add_paths(schema["properties"], path + ".", pointer + "/properties/", out);
  }
  if (!schema.contains("anyOf")) return;
  for (std::size_t i = 0; i < schema["anyOf"].size(); ++i) {
    add_paths_within(schema["anyOf"][i], path, pointer + "/anyOf/" + std::to_string(i), out);
  }
}

void add_paths(const Schema& properties, const std::string& where, const std::string& pointer,
               Schema& out) {
  for (const auto& [key, schema] : properties.items()) {
    out[where + key] = swept_values(schema.value("description", ""), reference(pointer + key),
                                    takes_numbers(schema));
    add_paths_within(schema, where + key, pointer + key, out);
  }
}

}  // namespace

Schema swept_properties(const Schema& properties, const std::string& where,
                        const std::string& definition) {
  Schema out = Schema::object();
  add_paths(properties, where, definition + "/properties/", out);
  return out;
}

Schema swept_values(const std::string& help, const Schema& value, bool range) {
  Schema schema = {{"allOf", Schema::array({reference(range ? kValuesOrRange : kValues)})},
                   {"items", value}};
  if (range) schema["properties"] = {{"from", value}};  // the first of its values
  return described(help, schema);
}

Schema sweep_definitions() {
  SweepRange range;
  Schema numbers = options_schema([&range](Options& o) { declare_options(o, range); });
  numbers["type"] = Schema::array({"array", "object"});
  numbers["required"] = Schema::array({"from"});
  numbers["minItems"] = 1;
  return {{kValues, {{"type", "array"}, {"minItems", 1}}}, {kValuesOrRange, numbers}};
}

Schema sweeps_over(const std::string& pattern) {
  const Schema no_key = {{"propertyNames", {{"not", {{"pattern", pattern}}}}}};
  const Schema some_key = {{"type", "object"}, {"not", no_key}};
  return {{"required", Schema::array({kSweepKey})}, {"properties", {{kSweepKey, some_key}}}};
}

Schema sweeps_over(const std::string& path, const Schema& value) {
  const Schema values = {{"type", "array"}, {"contains", value}};
  const Schema sweep = {
      {"type", "object"}, {"required", Schema::array({path})}, {"properties", {{path, values}}}};
  return {{"required", Schema::array({kSweepKey})}, {"properties", {{kSweepKey, sweep}}}};
}

}  // namespace ddprun
