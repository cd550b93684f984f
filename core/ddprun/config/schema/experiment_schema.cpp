// A definition a kind, and what makes a document one of that kind.
#include "ddprun/config/schema/experiment_schema.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/schema/options_schema.h"
#include "ddprun/config/schema/plugin_schema.h"
#include "ddprun/config/sweep.h"

namespace ddprun {

namespace {

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
