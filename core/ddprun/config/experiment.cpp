// From a YAML file to typed experiments, and back to YAML.
#include "ddprun/config/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/plugin_library.h"

namespace ddprun {

namespace {

void declare_name(Options& options, Experiment& e) {
  options.option("name", &e.name, "names the result folder and the report; empty: the file's name");
}

void declare_plugin_path(Options& options, Experiment& e) {
  options.option(kPluginPathKey, &e.plugin_path,
                 "folders searched for plugins first, relative to the file's folder");
}

/// The document with that key alone, if it is there.
ConfigNode only(const ConfigNode& document, const std::string& key) {
  ConfigNode node{.kind = ConfigNode::Kind::map, .origin = document.origin};
  if (const ConfigNode* value = document.find(key)) node.map.emplace_back(key, *value);
  return node;
}

const RunnableKind& read_kind(const ConfigNode& document, const Kinds& kinds) {
  std::string name = kinds.front()->name();
  read_options(only(document, kKindKey), "", [&](Options& o) { declare_kind(o, name, kinds); });
  return **std::ranges::find(kinds, name, &RunnableKind::name);
}

/// The keys that files of a kind may have, those of all kinds left out.
std::vector<std::string> keys_of(const RunnableKind& kind) {
  std::vector<std::string> out;
  for (const KindSection& section : kind.file().sections) out.push_back(section.key);
  for (const PluginKind plugin : kind.file().plugins) out.emplace_back(to_string(plugin));
  if (!kind.file().plugins.empty()) out.emplace_back(kPluginPathKey);
  return out;
}

/// A section of another kind has no effect, and without one of its own a kind has nothing to do.
void check_keys(const ConfigNode& document, const RunnableKind& kind, const Kinds& kinds,
                const std::filesystem::path& file) {
  const std::vector<std::string> own = keys_of(kind);
  for (const auto& [key, value] : document.map) {
    if (contains(own, key)) continue;
    const auto other = std::ranges::find_if(
        kinds, [&key](const RunnableKind* each) { return contains(keys_of(*each), key); });
    if (other == kinds.end()) continue;  // it is of all kinds, or of none
    throw ConfigError({.what = "experiment " + kind.name() + " has no `" + key + "`",
                       .where = value.key_origin,
                       .got = key + ": " + compact(value),
                       .expected = list_text(own),
                       .hint = fmt::format("it is of experiment {}: remove it, or change "
                                           "`experiment:`",
                                           (*other)->name())});
  }
  for (const auto& [key, help, declare, required] : kind.file().sections) {
    if (!required || document.find(key) != nullptr) continue;
    throw ConfigError({.what = "experiment " + kind.name() + " needs the section `" + key + "`",
                       .where = file.string(),
                       .got = "no such section",
                       .expected = key + ": {...}",
                       .hint = "`ddprun describe " + key + "` lists its keys"});
  }
}

// Never relative to the current directory: a file means the same wherever it is run from.
void make_absolute(std::string& path, const std::filesystem::path& folder) {
  if (!path.empty()) path = (folder / path).lexically_normal().string();
}

void join_launch(Experiment& experiment, int world_size) {
  if (world_size == 0) return;
  const ConfigNode* world = experiment.document.find("world");
  refuse_if(
      experiment,
      world != nullptr && world->find("size") != nullptr && experiment.world.size != world_size,
      "world.size",
      {.what = "world.size contradicts the launch that this process belongs to",
       .got = std::to_string(experiment.world.size),
       .expected = std::to_string(world_size) + ", the ranks that were launched",
       .hint = "remove world.size, or launch that many ranks"});
  experiment.world.size = world_size;
}

Experiment read_experiment(const SweepPoint& point, const std::filesystem::path& file,
                           const Kinds& kinds, int world_size) {
  Experiment e(read_kind(point.document, kinds));
  e.document = point.document;
  check_keys(e.document, *e.kind, kinds, file);
  e.label = point.label;
  e.point = point.values;
  std::vector<std::string> ignore = {kKindKey, kSweepKey, "report"};
  for (const PluginChoice& choice : e.plugins) ignore.emplace_back(to_string(choice.kind));
  read_options(
      e.document, "", [&](Options& o) { declare_document(o, e); }, ignore);
  if (e.name.empty()) e.name = file.stem().string();

  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (PluginChoice& choice : e.plugins) {
    choice = read_choice(e.document, choice.kind, file);
    make_absolute(choice.path, folder);
  }
  for (std::string* path : e.kind->paths(e)) make_absolute(*path, folder);
  for (auto& path : e.plugin_path) make_absolute(path, folder);
  join_launch(e, world_size);
  check_experiment(e);
  e.kind->check(e);
  return e;
}

ConfigNode choice_node(const PluginChoice& choice) {
  ConfigNode node{.kind = ConfigNode::Kind::map, .map = {{"name", text_node(choice.name)}}};
  if (!choice.path.empty()) node.map.emplace_back("path", text_node(choice.path));
  for (const auto& pair : choice.options.map) {
    if (pair.first != "name" && pair.first != "path") node.map.push_back(pair);
  }
  return node;
}

constexpr const char* kRepeats = "report.repeats runs each point several times";

/// What the points of a sweep have in common, and what tells them apart.
void check_points(const std::vector<Experiment>& points, const ConfigNode& file) {
  const Experiment& first = points.front();
  std::set<std::string> labels;
  std::map<std::string, std::string> label_of;  // by all that the point says
  for (const Experiment& point : points) {
    if (!labels.insert(point.label).second) {
      throw ConfigError({.what = "two points of the sweep have one label",
                         .where = origin_of(file, kSweepKey),
                         .got = point.label,
                         .expected = "labels that tell the points apart",
                         .hint = kRepeats});
    }
    const auto [same, other] = label_of.emplace(json_text(to_json(resolve(point))), point.label);
    if (!other) {
      throw ConfigError({.what = "two points of the sweep say the same",
                         .where = origin_of(file, kSweepKey),
                         .got = same->second + " and " + point.label,
                         .expected = "points that differ",
                         .hint = kRepeats});
    }
    refuse_if(point, point.output_dir != first.output_dir, "output.dir",
              {.what = "output.dir cannot be swept",
               .got = point.output_dir,
               .expected = "one folder for all points of the sweep",
               .hint = "the rows of a sweep are one result"});
    refuse_if(point, point.name != first.name, "name",
              {.what = "the name cannot be swept",
               .got = point.name,
               .expected = "one name for all points of the sweep",
               .hint = "labels tell the points apart"});
  }
}

}  // namespace

void declare_kind(Options& options, std::string& name, const Kinds& kinds) {
  options.option(kKindKey, &name, "what is measured",
                 {.one_of = mapped(kinds, &RunnableKind::name)});
}

void declare_document(Options& options, Experiment& e) {
  declare_name(options, e);
  if (!e.plugins.empty()) declare_plugin_path(options, e);
  for (const KindSection& section : e.kind->file().sections) {
    options.section(section.key, section.help, [&](Options& inner) { section.declare(inner, e); });
  }
}

void declare_choice(Options& options, PluginChoice& choice) {
  options.option("name", &choice.name, "name of a plugin; `ddprun list` shows them");
  options.option("path", &choice.path, "its library, relative to the file's folder");
}

const char* plugin_help(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "how gradients become their mean over ranks";
    case PluginKind::precision:
      return "in which dtype each stage computes";
    case PluginKind::attention:
      return "how attention is computed";
  }
  return "";
}

PluginChoice read_choice(const ConfigNode& document, PluginKind kind,
                         const std::filesystem::path& file) {
  const std::string word = to_string(kind);
  const std::string usage = word + ": NAME, or " + word + ": {name: NAME, ...its options}";
  const std::string hint = "`ddprun list` shows what is installed";
  const ConfigNode* node = document.find(word);
  if (node == nullptr) {
    throw ConfigError({.what = word + " is missing",
                       .where = file.string(),
                       .got = "no key `" + word + "`",
                       .expected = usage,
                       .hint = hint});
  }

  PluginChoice choice;
  choice.kind = kind;
  choice.options = *node;
  if (node->kind == ConfigNode::Kind::scalar) {
    choice.options = {.kind = ConfigNode::Kind::map,
                      .origin = node->origin,
                      .key_origin = node->key_origin,
                      .map = {{"name", *node}}};
  }
  if (choice.options.find("name") == nullptr) {
    throw ConfigError({.what = word + " has no name",
                       .where = node->origin,
                       .got = compact(*node),
                       .expected = usage,
                       .hint = hint});
  }
  ConfigNode ours = choice.options;  // the other keys are the plugin's
  std::erase_if(ours.map,
                [](const auto& pair) { return pair.first != "name" && pair.first != "path"; });
  read_options(ours, word, [&](Options& o) { declare_choice(o, choice); });
  return choice;
}

Experiment::Experiment(const RunnableKind& its_kind) : kind(&its_kind), own(its_kind.file().own) {
  for (const PluginKind plugin : its_kind.file().plugins) plugins.push_back({.kind = plugin});
}

PluginChoice& Experiment::plugin(PluginKind wanted) {
  return *std::ranges::find(plugins, wanted, &PluginChoice::kind);
}

const PluginChoice& Experiment::plugin(PluginKind wanted) const {
  return const_cast<Experiment*>(this)->plugin(wanted);
}

ExperimentFile load_experiments(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, const Kinds& kinds,
                                int world_size) {
  ConfigNode document = read_yaml(file);
  if (document.kind != ConfigNode::Kind::map) {
    throw ConfigError({.what = "an experiment must be a mapping",
                       .where = document.origin,
                       .got = compact(document),
                       .expected = "key: value lines",
                       .hint = "configs/ has examples"});
  }
  for (const auto& assignment : overrides) apply_override(document, assignment);
  expand_ranges(document);

  ExperimentFile result;
  result.file = file;
  for_each_point(document, [&](const SweepPoint& point) {
    try {
      result.experiments.push_back(read_experiment(point, file, kinds, world_size));
    } catch (const ConfigError& error) {
      throw ConfigError(at_point(error.text(), point.label));
    }
  });
  const std::vector<SweptValues> points = mapped(result.experiments, &Experiment::point);
  result.report = read_report(document);
  complete_report(result.report, document, *result.experiments.front().kind, points);
  result.baseline = find_baseline(document, points);
  result.document = std::move(document);
  result.name = result.experiments.front().name;
  check_points(result.experiments, result.document);
  return result;
}

ConfigNode resolve(const Experiment& experiment) {
  Experiment copy = experiment;  // options are declared on variables that could be set
  ConfigNode node = write_options([&](Options& o) { declare_document(o, copy); });
  const auto world =
      std::ranges::find_if(node.map, [](const auto& pair) { return pair.first == "world"; });
  const auto choices = mapped(experiment.plugins, [](const PluginChoice& choice) {
    return std::pair<std::string, ConfigNode>(to_string(choice.kind), choice_node(choice));
  });
  node.map.insert(world == node.map.end() ? world : world + 1, choices.begin(), choices.end());
  node.map.emplace(node.map.begin(), kKindKey, text_node(experiment.kind->name()));
  return node;
}

std::vector<std::pair<std::string, std::vector<OptionInfo>>> describe_sections(const Kinds& kinds) {
  Experiment defaults;
  std::string kind = kinds.front()->name();
  std::vector<std::pair<std::string, std::vector<OptionInfo>>> sections;
  sections.emplace_back("top level", list_options([&](Options& o) {
                          declare_kind(o, kind, kinds);
                          declare_name(o, defaults);
                          declare_plugin_path(o, defaults);
                        }));
  auto& top = sections.front().second;
  for (const PluginKind plugin : kPluginKinds) {
    top.push_back({to_string(plugin), "plugin", "(required)", "a name, or a mapping with one",
                   plugin_help(plugin)});
  }
  top.push_back(
      {kSweepKey, "mapping", "{}", "key paths, each with a list of values or a range", kSweepHelp});
  ReportConfig report;
  auto of_report = list_options([&](Options& o) { declare_options(o, report); });
  of_report.insert(of_report.begin(), {"baseline", "mapping", "{}",
                                       "swept keys, each with one of its values", kBaselineHelp});
  sections.emplace_back("report", std::move(of_report));
  for (const RunnableKind* each : kinds) {
    Experiment own(*each);
    for (const KindSection& section : each->file().sections) {
      std::pair described(section.key, list_options([&](Options& o) { section.declare(o, own); }));
      const bool known = contains(sections, described);
      if (!known) sections.push_back(std::move(described));
    }
  }
  return sections;
}

KindSection world_section() {
  return {"world", "ranks and their connection",
          [](Options& o, Experiment& e) { declare_options(o, e.world); }};
}

KindSection repeat_section() {
  return {
      "repeat", "how often it is measured", [](Options& o, Experiment& e) {
        o.option("warmup", &e.repeat.warmup, "samples taken and recorded before measuring",
                 {.min = 0, .max = 1e6});
        o.option("count", &e.repeat.count, "measured samples, unless `seconds` end them earlier",
                 {.min = RepeatConfig::kLeast, .max = 1e6});
        o.option("seconds", &e.repeat.seconds,
                 "after which measuring ends, once there are 3 samples", {.min = 0, .max = 86400});
      }};
}

KindSection output_section() {
  return {"output", "where results go, and what a run tells while it trains",
          [](Options& o, Experiment& e) {
            o.option("dir", &e.output_dir,
                     "folder of the results, relative to the current directory");
            declare_options(o, e.live);
          }};
}

}  // namespace ddprun
