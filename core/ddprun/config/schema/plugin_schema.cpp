// A plugin's options are its own declaration's; which of them count is said in conditions.
#include "ddprun/config/schema/plugin_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "ddprun/config/experiment.h"
#include "ddprun/config/schema/options_schema.h"
#include "ddprun/config/sweep.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

namespace {

constexpr const char* kName = "name";
constexpr const char* kPath = "path";

Schema any_of(const std::vector<Schema>& schemas) { return {{"anyOf", schemas}}; }

/// A mapping in which `key` is as `schema` says.
Schema with(const std::string& key, const Schema& schema) {
  return {{"type", "object"}, {"required", Schema::array({key})}, {"properties", {{key, schema}}}};
}

Schema if_not(const Schema& condition, const Schema& schema) {
  return {{"if", condition}, {"else", schema}};
}

Schema equal_to(const std::string& text) { return {{"const", text}}; }

}  // namespace

PluginSchema::PluginSchema(PluginKind kind, const PluginRegistry& registry)
    : key_(to_string(kind)), help_(plugin_help(kind)) {
  for (const PluginInfo& info : registry.list()) {
    if (info.kind != kind) continue;
    const std::shared_ptr<Plugin> plugin = registry.create(kind, info.name);
    PluginChoice choice;
    plugins_.push_back({info.name, info.summary, options_schema([&](Options& o) {
                          declare_choice(o, choice);
                          called(*plugin, "declare_options()", [&] { plugin->declare_options(o); });
                        })});
  }
}

Schema PluginSchema::names() const {
  std::vector<std::string> names, summaries;
  for (const Known& plugin : plugins_) {
    names.push_back(plugin.name);
    summaries.push_back(plugin.summary);
  }
  Schema schema = one_of_schema(names);
  schema["enumDescriptions"] = summaries;  // which editors show
  return schema;
}

Schema PluginSchema::choice() const {
  Schema of_its_own = Schema::array();
  for (const Known& plugin : plugins_) {
    of_its_own.push_back(
        {{"if", with(kName, equal_to(plugin.name))}, {"then", reference(definition_of(plugin))}});
  }
  const Schema library = with(kPath, {{"type", "string"}, {"minLength", 1}});
  Schema mapping = with(kName, {{"type", "string"}});
  mapping["properties"][kPath] = {{"type", "string"}};
  mapping.update(
      if_not(library, {{"properties", {{kName, reference(known())}}}, {"allOf", of_its_own}}));
  return described(help_, any_of({reference(known()), mapping}));
}

Schema PluginSchema::definitions() const {
  Schema out = {{known(), names()},
                {key_, choice()},
                {swept(), sweeps_over(fmt::format("^{}(\\.{})?$", key_, kName))},
                {unknown(), may_be_any()}};
  for (const Known& plugin : plugins_) {
    out[definition_of(plugin)] = described(plugin.summary, plugin.mapping);
  }
  return out;
}

Schema PluginSchema::swept_paths() const {
  Schema out = {{key_, swept_values(help_, Schema::object(), false)}};
  for (const Known& plugin : plugins_) {
    const Schema paths =
        swept_properties(plugin.mapping["properties"], key_ + ".", definition_of(plugin));
    for (const auto& [path, values] : paths.items()) {
      if (out.contains(path)) continue;
      out[path] = values;
      if (path == key_ + "." + kName || path == key_ + "." + kPath) continue;
      // Plugins may have an option in common, and not its values.
      for (const char* of_values : {"items", "properties"}) out[path].erase(of_values);
    }
  }
  return out;
}

/// Its library may be one that the registry does not have.
Schema PluginSchema::may_be_any() const {
  const Schema no_folder = {{"enum", Schema::array({Schema::array(), ""})}};
  return any_of({with(kPluginPathKey, {{"not", no_folder}}),
                 sweeps_over(fmt::format("^({}|{}\\.{})$", kPluginPathKey, key_, kPath))});
}

Schema PluginSchema::is_named(const Known& plugin) const {
  const Schema name = equal_to(plugin.name);
  const Schema choice = any_of({name, with(kName, name)});
  const std::string name_path = key_ + "." + kName;
  Schema unswept = with(key_, choice);
  unswept["not"] = reference(swept());
  return any_of({unswept, sweeps_over(key_, choice), sweeps_over(name_path, name)});
}

/// What swept_paths() leaves open: which of them the plugin has, and their values.
Schema PluginSchema::swept_options(const Known& plugin) const {
  Schema values = swept_properties(plugin.mapping["properties"], key_ + ".", definition_of(plugin));
  std::vector<std::string> known;
  for (auto& [path, schema] : values.items()) {
    known.push_back(path.substr(key_.size() + 1));
    for (const char* of_all : {"description", "allOf"}) schema.erase(of_all);
  }
  const std::string pattern = fmt::format("^(?!{0}\\.)|^{0}\\.({1})$", key_, fmt::join(known, "|"));
  for (const char* ours : {kName, kPath}) values.erase(key_ + "." + ours);
  return {{"propertyNames", {{"pattern", pattern}}}, {"properties", values}};
}

Schema PluginSchema::conditions() const {
  Schema sweep = {{"properties",
                   {{key_, {{"items", reference(key_)}}},
                    {key_ + "." + kName, {{"items", reference(known())}}}}}};
  Schema checked = {{"allOf", Schema::array()}};
  checked["properties"] = {{kSweepKey, sweep}};
  for (const Known& plugin : plugins_) {
    checked["allOf"].push_back({{"if", is_named(plugin)},
                                {"then", {{"properties", {{kSweepKey, swept_options(plugin)}}}}}});
  }
  const Schema value = {{"properties", {{key_, reference(key_)}}}};
  return Schema::array({if_not(reference(swept()), {{"required", Schema::array({key_})}}),
                        if_not(any_of({reference(swept()), reference(unknown())}), value),
                        if_not(reference(unknown()), checked)});
}

}  // namespace ddprun
