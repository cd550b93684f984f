// A definition a kind, and what makes a document one of that kind.
#include "ddprun/config/schema/experiment_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
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

/// What a document may say of plugins of one kind. Throws PluginError if one cannot be made.
class PluginSchema {
 public:
  PluginSchema(PluginKind kind, const PluginRegistry& registry)
      : key_(to_string(kind)), help_(plugin_help(kind)) {
    for (const PluginInfo& info : registry.list()) {
      if (info.kind != kind) continue;
      const std::shared_ptr<Plugin> plugin = registry.create(kind, info.name);
      PluginChoice choice;
      plugins_.push_back({info.name, info.summary, options_schema([&](Options& o) {
                            declare_choice(o, choice);
                            called(*plugin, "declare_options()",
                                   [&] { plugin->declare_options(o); });
                          })});
    }
  }

  /// The key of the document, which is also the name of the definition of its value.
  const std::string& key() const { return key_; }
  const std::string& help() const { return help_; }

  /// Its value (a name, or a mapping with one and the options of that plugin), the mappings of the
  /// single plugins, and what conditions have in common.
  Schema definitions() const {
    Schema out = {{known(), names()},
                  {key_, choice()},
                  {swept(), sweeps_over(fmt::format("^{}(\\.{})?$", key_, kName))},
                  {unknown(), may_be_any()}};
    for (const Known& plugin : plugins_) {
      out[definition_of(plugin)] = described(plugin.summary, plugin.mapping);
    }
    return out;
  }

  /// The key paths of the plugins that a sweep may have, with lists of any values.
  Schema swept_paths() const {
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

  /// What is to hold of the whole document besides: that it names a plugin, that a plugin is one of
  /// the registry's unless the document says where its library is, and that swept options are
  /// those of the plugins that are named.
  Schema conditions() const {
    Schema sweep = {{"properties",
                     {{key_, {{"items", reference(key_)}}},
                      {key_ + "." + kName, {{"items", reference(known())}}}}}};
    Schema checked = {{"allOf", Schema::array()}};
    checked["properties"] = {{kSweepKey, sweep}};
    for (const Known& plugin : plugins_) {
      checked["allOf"].push_back(
          {{"if", is_named(plugin)},
           {"then", {{"properties", {{kSweepKey, swept_options(plugin)}}}}}});
    }
    const Schema value = {{"properties", {{key_, reference(key_)}}}};
    return Schema::array({if_not(reference(swept()), {{"required", Schema::array({key_})}}),
                          if_not(any_of({reference(swept()), reference(unknown())}), value),
                          if_not(reference(unknown()), checked)});
  }

 private:
  struct Known {
    std::string name, summary;
    Schema mapping;
  };

  std::string definition_of(const Known& plugin) const { return key_ + "." + plugin.name; }
  std::string known() const { return "known." + key_; }      ///< a name of the registry
  std::string swept() const { return "swept." + key_; }      ///< the sweep says which plugin it is
  std::string unknown() const { return "unknown." + key_; }  ///< its library may be any

  Schema names() const {
    std::vector<std::string> names, summaries;
    for (const Known& plugin : plugins_) {
      names.push_back(plugin.name);
      summaries.push_back(plugin.summary);
    }
    Schema schema = one_of_schema(names);
    schema["enumDescriptions"] = summaries;  // which editors show
    return schema;
  }

  Schema choice() const {
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

  /// Its library may be one that the registry does not have.
  Schema may_be_any() const {
    const Schema no_folder = {{"enum", Schema::array({Schema::array(), ""})}};
    return any_of({with(kPluginPathKey, {{"not", no_folder}}),
                   sweeps_over(fmt::format("^({}|{}\\.{})$", kPluginPathKey, key_, kPath))});
  }

  Schema is_named(const Known& plugin) const {
    const Schema name = equal_to(plugin.name);
    const Schema choice = any_of({name, with(kName, name)});
    const std::string name_path = key_ + "." + kName;
    Schema unswept = with(key_, choice);
    unswept["not"] = reference(swept());
    return any_of({unswept, sweeps_over(key_, choice), sweeps_over(name_path, name)});
  }

  /// What swept_paths() leaves open: which of them the plugin has, and their values.
  Schema swept_options(const Known& plugin) const {
    Schema values =
        swept_properties(plugin.mapping["properties"], key_ + ".", definition_of(plugin));
    std::vector<std::string> known;
    for (auto& [path, schema] : values.items()) {
      known.push_back(path.substr(key_.size() + 1));
      for (const char* of_all : {"description", "allOf"}) schema.erase(of_all);
    }
    const std::string pattern =
        fmt::format("^(?!{0}\\.)|^{0}\\.({1})$", key_, fmt::join(known, "|"));
    for (const char* ours : {kName, kPath}) values.erase(key_ + "." + ours);
    return {{"propertyNames", {{"pattern", pattern}}}, {"properties", values}};
  }

  std::string key_, help_;
  std::vector<Known> plugins_;
};

constexpr const char* kReport = "report";

/// A kind of plugin may have the name of a kind of experiment.
std::string definition_of(const RunnableKind& kind) { return "experiment." + kind.name(); }

Schema kind_key(const Kinds& kinds) {
  std::string name = kinds.front()->name();
  return options_schema([&](Options& o) { declare_kind(o, name, kinds); })["properties"];
}

Schema report_schema() {
  ReportConfig report;
  Schema schema = options_schema([&report](Options& o) { declare_options(o, report); });
  schema["type"] = Schema::array({"object", "null"});  // as each section
  schema["properties"]["baseline"] = {{"description", kBaselineHelp}, {"type", "object"}};
  return described("how the table is made", schema);
}

Schema sweep_schema(const Schema& properties, const std::string& definition,
                    const std::vector<PluginSchema>& plugins) {
  Schema paths = swept_properties(properties, "", definition);
  Schema others = Schema::object();  // of plugins that are not known; conditions hold the others
  for (const PluginSchema& plugin : plugins) {
    paths.update(plugin.swept_paths());
    others[fmt::format("^{}\\.", plugin.key())] = {{"type", Schema::array({"array", "object"})}};
  }
  return {{"description", kSweepHelp},
          {"type", "object"},
          {"properties", paths},
          {"patternProperties", others},
          {"additionalProperties", false}};
}

/// Each section that the kind cannot do without is there, if only in the sweep.
Schema required_sections(const RunnableKind& kind) {
  Schema out = Schema::array();
  for (const KindSection& section : kind.file().sections) {
    if (!section.required) continue;
    out.push_back({{"if", sweeps_over(fmt::format("^{}(\\.|$)", section.key))},
                   {"else", {{"required", Schema::array({section.key})}}}});
  }
  return out;
}

Schema kind_schema(const RunnableKind& kind, const Kinds& kinds,
                   const std::vector<PluginSchema>& plugins) {
  Experiment experiment(kind);
  Schema schema = options_schema([&](Options& o) { declare_document(o, experiment); });
  Schema& properties = schema["properties"];
  Schema conditions = required_sections(kind);
  properties.update(kind_key(kinds));
  const Schema sweep = sweep_schema(properties, definition_of(kind), plugins);
  for (const PluginSchema& plugin : plugins) {
    properties[plugin.key()] = {{"description", plugin.help()}};
    for (const Schema& condition : plugin.conditions()) conditions.push_back(condition);
  }
  properties[kSweepKey] = sweep;
  properties["report"] = reference(kReport);
  if (!conditions.empty()) schema["allOf"] = conditions;
  return schema;
}

/// A document is of the kind that it names, or else of the first; a sweep may name it, too.
Schema is_of(const RunnableKind& kind, const Kinds& kinds) {
  const Schema name = {{"const", kind.name()}};
  Schema unswept = {{"properties", {{kKindKey, name}}},
                    {"not", sweeps_over(fmt::format("^{}$", kKindKey))}};
  if (&kind != kinds.front()) unswept["required"] = Schema::array({kKindKey});
  return {{"anyOf", Schema::array({unswept, sweeps_over(kKindKey, name)})}};
}

}  // namespace

Schema experiment_schema(const Kinds& kinds, const PluginRegistry& registry) {
  Schema properties = kind_key(kinds);
  const Schema swept = {{"properties", {{kKindKey, {{"items", properties[kKindKey]}}}}}};
  properties[kSweepKey] = swept;
  Schema definitions = sweep_definitions();
  definitions[kReport] = report_schema();
  Schema of_kinds = Schema::array();
  for (const RunnableKind* kind : kinds) {
    std::vector<PluginSchema> plugins;
    for (const PluginKind each : kind->file().plugins) plugins.emplace_back(each, registry);
    for (const PluginSchema& plugin : plugins) definitions.update(plugin.definitions());
    definitions[definition_of(*kind)] = kind_schema(*kind, kinds, plugins);
    of_kinds.push_back({{"if", is_of(*kind, kinds)}, {"then", reference(definition_of(*kind))}});
  }
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "An experiment of ddprun"},
          {"$comment", "Written by `ddprun schema`, from the declarations that read the files."},
          {"type", "object"},
          {"properties", properties},
          {"allOf", of_kinds},
          {"definitions", definitions}};
}

}  // namespace ddprun
