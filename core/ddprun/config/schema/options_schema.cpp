// A visitor: each option becomes a property. What may be swept walks the properties, as key paths
// walk through a document.
#include "ddprun/config/schema/options_schema.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "ddprun/config/sweep.h"

namespace ddprun {

namespace {

/// As people write it: 60, not 60.0.
Schema number(double value) {
  if (value == std::trunc(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Schema limited(const char* type, const Limits& limits) {
  Schema schema = {{"type", type}};
  if (limits.min) schema["minimum"] = number(*limits.min);
  if (limits.max) schema["maximum"] = number(*limits.max);
  return schema;
}

/// One value stands for a list of one.
Schema one_or_several(const Schema& element) {
  return {{"anyOf", Schema::array({element, {{"type", "array"}, {"items", element}}})}};
}

// What a variable of that type may be set to. The value does not matter.
Schema type_schema(const bool*, const Limits& limits) { return limited("boolean", limits); }
Schema type_schema(const std::int64_t*, const Limits& limits) { return limited("integer", limits); }
Schema type_schema(const double*, const Limits& limits) { return limited("number", limits); }
Schema type_schema(const std::string*, const Limits& limits) {
  return limits.one_of.empty() ? limited("string", limits) : one_of_schema(limits.one_of);
}
Schema type_schema(const ChoiceTarget&, const Limits& limits) {
  return one_of_schema(limits.one_of);
}
template <class T>
Schema type_schema(const std::optional<T>*, const Limits& limits) {
  return type_schema(static_cast<const T*>(nullptr), limits);
}
template <class T>
Schema type_schema(const std::vector<T>*, const Limits& limits) {
  return one_or_several(type_schema(static_cast<const T*>(nullptr), limits));
}

// The present value; null: there is none.
Schema value_of(const double* variable) { return number(*variable); }
Schema value_of(const ChoiceTarget& choice) { return choice.name(); }
template <class T>
Schema value_of(const T* variable) {
  return *variable;
}
template <class T>
Schema value_of(const std::optional<T>* variable) {
  return *variable ? value_of(&**variable) : Schema();
}

class SchemaWriter : public Options {
 public:
  Schema take() {
    return {{"type", "object"},
            {"properties", std::move(properties_)},
            {"additionalProperties", false}};
  }

  /// Without content a section has its defaults.
  void section(const std::string& key, const std::string& help,
               const std::function<void(Options&)>& declare) override {
    Schema schema = options_schema(declare);
    schema["type"] = Schema::array({"object", "null"});
    add(key, help, schema);
  }

  void list(const std::string& key, const std::string& help, const SectionList& elements) override {
    Schema schema = one_or_several(options_schema(elements.declare_new));
    if (elements.size == 0) schema["default"] = Schema::array();
    add(key, help, schema);
  }

  void choice_or_section(const std::string& key, ChoiceTarget choice, const std::string& help,
                         const std::function<void(Options&)>& declare) override {
    Schema mapping = options_schema(declare);
    mapping["minProperties"] = 1;
    const Schema name = one_of_schema({choice.names().begin(), choice.names().end()});
    add(key, help, {{"anyOf", Schema::array({name, mapping})}, {"default", choice.name()}});
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    Schema schema = std::visit(
        [&spec](const auto& variable) { return type_schema(variable, spec.limits); }, target);
    const auto value = std::visit([](const auto& variable) { return value_of(variable); }, target);
    if (!value.is_null()) schema["default"] = value;
    add(spec.key, spec.help, schema);
    return false;
  }

 private:
  void add(const std::string& key, const std::string& help, const Schema& schema) {
    properties_[key] = described(help, schema);
  }

  Schema properties_ = Schema::object();
};

constexpr std::size_t kColumns = 120;

/// `begin`: what stands on the line before `value`, the spaces among them.
std::string lines_behind(const std::string& begin, const Schema& value, std::size_t indent) {
  const std::string line = begin + value.dump();
  if (!value.is_structured() || line.size() < kColumns) return line;
  std::string inside;
  for (const auto& [key, element] : value.items()) {
    std::string next(indent + 1, ' ');
    if (value.is_object()) next += Schema(key).dump() + ": ";
    inside += (inside.empty() ? "" : ",\n") + lines_behind(next, element, indent + 1);
  }
  const char* const brackets = value.is_object() ? "{}" : "[]";
  return begin + brackets[0] + "\n" + inside + "\n" + std::string(indent, ' ') + brackets[1];
}

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

Schema options_schema(const std::function<void(Options&)>& declare) {
  SchemaWriter writer;
  declare(writer);
  return writer.take();
}

Schema one_of_schema(const std::vector<std::string>& names) {
  return {{"type", "string"}, {"enum", names}};
}

Schema described(const std::string& help, const Schema& schema) {
  Schema out = {{"description", help}};
  out.update(schema);
  return out;
}

Schema reference(const std::string& definition) {
  return {{"$ref", "#/definitions/" + definition}};
}

std::string lines_of(const Schema& schema) { return lines_behind("", schema, 0) + "\n"; }

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
