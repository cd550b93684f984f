// Walks dotted paths through the tree, and multiplies documents by their sweeps.
#include "ddprun/config/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/config/options_io.h"

namespace ddprun {

namespace {

constexpr const char* kOverrideOrigin = "--set ";
/// What follows it in a path is a key of the sweep.
constexpr std::string_view kSweepPrefix = "sweep.";
constexpr std::size_t kMaxSweepPoints = 10'000;
constexpr std::size_t kMaxSweptKeys = 100;

std::vector<std::string> split_path(const std::string& path, const std::string& origin) {
  std::vector<std::string> keys = split_at(path, '.');
  const bool malformed = std::ranges::any_of(keys, [](const std::string& key) {
    return key.empty() || key.find_first_of(" \t\n:=") != std::string::npos;
  });
  if (malformed) {
    throw ConfigError({.what = "malformed key path '" + path + "'",
                       .where = origin,
                       .got = "an empty key, or one with a space, ':' or '='",
                       .expected = "keys joined by single dots",
                       .hint = "as in train.steps"});
  }
  return keys;
}

void put(ConfigNode& mapping, const std::string& key, ConfigNode value) {
  if (ConfigNode* existing = mapping.find(key)) {
    *existing = std::move(value);
  } else {
    mapping.map.emplace_back(key, std::move(value));
  }
}

// Turns what stands in the way of a path into a mapping.
void open_mapping(ConfigNode& node, const std::string& path, const ConfigNode& value) {
  if (node.kind == ConfigNode::Kind::map) return;
  if (node.kind == ConfigNode::Kind::list) {
    throw ConfigError({.what = "the key path '" + path + "' runs through a list",
                       .where = value.origin,
                       .got = compact(node),
                       .expected = "a path through mappings",
                       .hint = "set the whole list instead"});
  }
  ConfigNode mapping{.kind = ConfigNode::Kind::map,
                     .origin = node.origin.empty() ? value.origin : node.origin,
                     .key_origin = node.key_origin.empty() ? value.key_origin : node.key_origin};
  if (node.kind == ConfigNode::Kind::scalar) {
    ConfigNode name = std::move(node);
    name.key_origin = name.origin;
    mapping.map.emplace_back("name", std::move(name));
  }
  node = std::move(mapping);
}

void set_origin(ConfigNode& node, const std::string& origin) {
  node.origin = node.key_origin = origin;
  for (auto& element : node.list) set_origin(element, origin);
  for (auto& [key, value] : node.map) set_origin(value, origin);
}

const ConfigNode* find_path(const ConfigNode& root, const std::vector<std::string>& keys) {
  const ConfigNode* node = &root;
  for (const auto& key : keys) {
    node = node->find(key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

// An override at or below `node`, or null.
const ConfigNode* find_override(const ConfigNode& node) {
  if (node.origin.starts_with(kOverrideOrigin)) return &node;
  for (const auto& [key, value] : node.map) {
    if (const ConfigNode* found = find_override(value)) return found;
  }
  return nullptr;
}

// A value that a sweep would silently replace is a mistake of the user's: say so.
void refuse_hidden(const ConfigNode& document, const ConfigNode& sweep) {
  for (auto pair = sweep.map.begin(); pair != sweep.map.end(); ++pair) {
    const auto& [path, values] = *pair;
    const ConfigNode* replaced = find_path(document, split_path(path, values.key_origin));
    const ConfigNode* override_node = replaced ? find_override(*replaced) : nullptr;
    if (override_node != nullptr) {
      throw ConfigError({.what = "an override has no effect: the sweep replaces it",
                         .where = override_node->origin,
                         .got = "sweep over '" + path + "' at " + values.key_origin,
                         .expected = "an override of a key that is not swept",
                         .hint = "override the sweep: --set 'sweep." + path +
                                 "=[...]', or drop it: --set 'sweep={}'"});
    }
    for (auto earlier = sweep.map.begin(); earlier != pair; ++earlier) {
      if (earlier->first.starts_with(path + ".")) {
        throw ConfigError(
            {.what = "sweep over '" + path + "' replaces the values of '" + earlier->first + "'",
             .where = values.key_origin,
             .got = "the longer path first",
             .expected = "the shorter path first",
             .hint = "put '" + path + "' before '" + earlier->first + "'"});
      }
    }
  }
}

// What was meant by values that are no list: one value, or keys within one another.
std::string as_list(const std::string& path, const ConfigNode& values) {
  if (!values.list.empty()) return path + ": " + compact(values);
  if (values.kind == ConfigNode::Kind::scalar) return path + ": [" + compact(values) + "]";
  if (values.map.empty()) return path + ": [...]";
  const auto& [key, below] = values.map.front();
  return as_list(path + "." + key, below);
}

void check_sweep(const ConfigNode& document, const ConfigNode& sweep) {
  if (sweep.kind != ConfigNode::Kind::map) {
    throw ConfigError({.what = "sweep must be a mapping",
                       .where = sweep.origin,
                       .got = compact(sweep),
                       .expected = "key paths, each with a list of values",
                       .hint = "sweep: {world.size: [1, 2]}"});
  }
  // Each point takes a step for each key, even if that has one value only.
  if (sweep.map.size() > kMaxSweptKeys) {
    throw ConfigError({.what = "the sweep has too many keys",
                       .where = sweep.origin,
                       .got = std::to_string(sweep.map.size()),
                       .expected = "at most " + std::to_string(kMaxSweptKeys),
                       .hint = "a key with one value needs no sweep"});
  }
  std::size_t points = 1;
  for (const auto& [path, values] : sweep.map) {
    if (path == kSweepKey || path.starts_with(kSweepPrefix)) {
      throw ConfigError({.what = "a sweep cannot change itself",
                         .where = values.key_origin,
                         .got = path,
                         .expected = "a key path of the experiment",
                         .hint = "remove it"});
    }
    if (path == "report" || path.starts_with("report.")) {
      throw ConfigError({.what = "a sweep cannot change the report, which is of all of its points",
                         .where = values.key_origin,
                         .got = path,
                         .expected = "a key path of the experiment",
                         .hint = "remove it"});
    }
    if (values.kind != ConfigNode::Kind::list || values.list.empty()) {
      throw ConfigError({.what = "sweep over '" + path + "' must be given a list of values",
                         .where = values.origin,
                         .got = compact(values),
                         .expected = "a list of at least one value",
                         .hint = as_list(path, values)});
    }
    points *= values.list.size();
    if (points > kMaxSweepPoints) {
      throw ConfigError({.what = "the sweep has too many points",
                         .where = sweep.origin,
                         .got = std::to_string(points) + " or more",
                         .expected = "at most " + std::to_string(kMaxSweepPoints),
                         .hint = "sweep over fewer keys"});
    }
  }
  refuse_hidden(document, sweep);
}

SweepRange read_range(const std::string& path, const ConfigNode& node) {
  SweepRange range;
  read_options(node, std::string(kSweepPrefix) + path,
               [&range](Options& o) { declare_options(o, range); });
  if (range.from <= range.to) return range;
  throw ConfigError({.what = "the range of '" + path + "' has no value",
                     .where = node.origin,
                     .got = compact(node),
                     .expected = "`from` not above `to`",
                     .hint = "{from: 1000, to: 1e9, factor: 10}"});
}

ConfigNode list_of(const SweepRange& range, const ConfigNode& node) {
  ConfigNode list{
      .kind = ConfigNode::Kind::list, .origin = node.origin, .key_origin = node.key_origin};
  std::int64_t value = range.from;
  while (value <= range.to) {
    list.list.push_back({.kind = ConfigNode::Kind::scalar,
                         .scalar = std::to_string(value),
                         .origin = node.origin,
                         .key_origin = node.origin});
    const double next = std::round(static_cast<double>(value) * range.factor);
    value = std::max(value + 1, static_cast<std::int64_t>(next));
  }
  return list;
}

// A label stands in tables: one line, and of no more than a cell can show.
std::string as_label(const std::string& text) { return shortened(printable_line(text), 200); }

SweepPoint point_at(const ConfigNode& base, const ConfigNode& sweep,
                    const std::vector<std::size_t>& choice) {
  SweepPoint point{base, ""};
  for (std::size_t key = 0; key < choice.size(); ++key) {
    const auto& [path, values] = sweep.map[key];
    ConfigNode value = values.list[choice[key]];
    value.key_origin = values.key_origin;
    const std::string label = label_of(value);
    point.label += (point.label.empty() ? "" : ", ") + path + "=" + label;
    point.values.emplace_back(path, label);
    set_path(point.document, path, std::move(value));
  }
  return point;
}

// The last key varies fastest. False: that was the last point.
bool to_next(std::vector<std::size_t>& choice, const ConfigNode& sweep) {
  for (std::size_t key = choice.size(); key-- > 0;) {
    if (++choice[key] < sweep.map[key].second.list.size()) return true;
    choice[key] = 0;
  }
  return false;
}

}  // namespace

std::string label_of(const ConfigNode& value) {
  if (value.kind == ConfigNode::Kind::scalar) return as_label(value.scalar);
  const ConfigNode* name = value.find("name");
  if (name == nullptr) return as_label(compact(value));
  std::vector<std::string> rest;
  for (const auto& [key, node] : value.map) {
    if (key != "name") rest.push_back(key + "=" + label_of(node));
  }
  return label_of(*name) + (rest.empty() ? "" : fmt::format("({})", fmt::join(rest, ", ")));
}

void set_path(ConfigNode& root, const std::string& path, ConfigNode value) {
  const std::vector<std::string> keys = split_path(path, value.origin);
  if (value.key_origin.empty()) value.key_origin = value.origin;
  ConfigNode* node = &root;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    open_mapping(*node, path, value);
    if (node->find(keys[i]) == nullptr) put(*node, keys[i], {});
    node = node->find(keys[i]);
  }
  open_mapping(*node, path, value);
  put(*node, keys.back(), std::move(value));
}

const ConfigNode* at_path(const ConfigNode& root, const std::string& path) {
  return find_path(root, split_path(path, root.origin));
}

void apply_override(ConfigNode& root, const std::string& assignment) {
  const std::string origin = kOverrideOrigin + assignment;
  const auto equals = assignment.find('=');
  const std::string text = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  if (equals == std::string::npos || equals == 0 ||
      text.find_first_not_of(" \t") == std::string::npos) {
    const bool no_key = equals == std::string::npos || equals == 0;
    throw ConfigError(
        {.what = "malformed override",
         .where = origin,
         .got = no_key ? "no key, or no '='" : "no value",
         .expected = "--set key.path=value",
         .hint = no_key ? "as in --set train.steps=20" : "for empty text write \"\""});
  }
  ConfigNode value = with_place(origin, [&] { return parse_yaml(text, origin); });
  set_origin(value, origin);

  const std::string path = assignment.substr(0, equals);
  if (path.starts_with(kSweepPrefix)) {
    open_mapping(root, path, value);
    if (root.find(kSweepKey) == nullptr) put(root, kSweepKey, {});
    ConfigNode& sweep = *root.find(kSweepKey);
    open_mapping(sweep, path, value);
    put(sweep, path.substr(kSweepPrefix.size()), std::move(value));
  } else {
    set_path(root, path, std::move(value));
  }
}

void declare_options(Options& o, SweepRange& range) {
  constexpr double kMost = 1e15;
  o.option("from", &range.from, "the first value", {.min = 1, .max = kMost});
  o.option("to", &range.to, "no value is above", {.min = 1, .max = kMost});
  o.option("factor", &range.factor, "from a value to the next", {.min = 1.01, .max = kMost});
}

void expand_ranges(ConfigNode& document) {
  ConfigNode* sweep = document.find(kSweepKey);
  if (sweep == nullptr) return;
  for (auto& [path, values] : sweep->map) {
    if (values.kind != ConfigNode::Kind::map || values.find("from") == nullptr) continue;
    values = list_of(read_range(path, values), values);
  }
}

void for_each_point(const ConfigNode& document, const std::function<void(SweepPoint)>& use) {
  ConfigNode base = document;
  std::erase_if(base.map, [](const auto& pair) { return pair.first == kSweepKey; });
  const ConfigNode* sweep = document.find(kSweepKey);
  if (sweep == nullptr) return use({std::move(base), ""});
  check_sweep(base, *sweep);
  std::vector<std::size_t> choice(sweep->map.size());
  do {
    use(point_at(base, *sweep, choice));
  } while (to_next(choice, *sweep));
}

std::vector<std::string> swept_keys(const std::vector<SweptValues>& points) {
  return mapped(points.front(), &SweptValues::value_type::first);
}

std::vector<std::string> values_of(const std::string& key, const std::vector<SweptValues>& points) {
  std::vector<std::string> values;
  std::set<std::string> known;
  for (const SweptValues& point : points) {
    for (const auto& [swept, value] : point) {
      if (swept == key && known.insert(value).second) values.push_back(value);
    }
  }
  return values;
}

std::string swept_key(const std::string& name, const std::vector<SweptValues>& points,
                      const std::string& where) {
  const std::vector<std::string> keys = swept_keys(points);
  std::vector<std::string> found;
  for (const std::string& key : keys) {
    if (key == name) return key;
    if (key.ends_with("." + name)) found.push_back(key);
  }
  if (found.size() == 1) return found.front();
  throw ConfigError({.what = found.empty() ? "report names a key that is not swept"
                                           : "report names a key by a part that several keys have",
                     .where = where,
                     .got = name,
                     .expected = keys.empty() ? "a sweep" : list_text(keys),
                     .hint = did_you_mean(found.empty() ? name : found.front(), keys,
                                          "remove it; on the command line: --set 'report={}'")});
}

}  // namespace ddprun
