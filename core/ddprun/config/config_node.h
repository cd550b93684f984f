// A YAML document as a plain tree in which every value remembers where it came from; overrides and
// sweeps edit it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// A node owns its children (a plain value: copies are deep). Mappings keep their order; duplicate
/// keys are an error on reading. Anchors, aliases and merge keys (`<<`) are resolved on reading.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar;      ///< text of a scalar
  bool quoted = false;     ///< a quoted scalar is text, whatever it looks like
  std::string origin;      ///< "file.yaml:12:5", "--set strategy.bucket_mb=5": for error messages
  std::string key_origin;  ///< of the key, when this is a mapping's value
  std::vector<ConfigNode> list;
  std::vector<std::pair<std::string, ConfigNode>> map;

  /// The value of `key`, or null if absent or this is no mapping.
  const ConfigNode* find(const std::string& key) const;
  ConfigNode* find(const std::string& key);
};

/// Reads one YAML file. Throws ConfigError with line and column for bad syntax, a duplicate key,
/// several documents, an unreadable or empty file.
ConfigNode read_yaml(const std::filesystem::path& file);

/// The same from text, except that empty text gives null; `origin` takes the place of the file's
/// name.
ConfigNode parse_yaml(const std::string& text, const std::string& origin);

/// Puts `value` at a dotted path ("model.layers", "strategy.bucket_mb"), creating mappings on the
/// way. A scalar in the way
/// (`strategy: mine`) becomes {name: mine}. Throws ConfigError if the path is malformed or
/// runs through a list.
void set_path(ConfigNode& root, const std::string& path, ConfigNode value);

/// Applies one `--set key.path=value`; the value is parsed as YAML (so lists and mappings work).
/// What follows `sweep.` is one key of the sweep: "sweep.world.size=[1, 2]".
void apply_override(ConfigNode& root, const std::string& assignment);

/// One point of a sweep: the document without `sweep:`, and the swept values ("strategy=mine,
/// world.size=2").
struct SweepPoint {
  ConfigNode document;
  std::string label;
};

/// Expands `sweep: {path: [values...], ...}` as a cross product, the last key varying fastest;
/// values may be scalars, lists or mappings (whole nodes). A document without `sweep:`, or with an
/// empty one, gives itself, with an empty label. Throws ConfigError if `sweep:` is not a mapping of
/// non-empty lists, or if it would hide an override or an earlier key.
std::vector<SweepPoint> expand_sweep(const ConfigNode& document);

/// The tree as YAML text, comments lost; reading it again gives the same tree.
std::string to_yaml(const ConfigNode& node);

/// The tree on one line, for messages and labels: "{name: mine, bucket_mb: 5}".
std::string compact(const ConfigNode& node);

}  // namespace ddprun
