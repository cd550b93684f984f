// A YAML document as a plain tree in which every value remembers where it came from.
//
// Family: config_node.cpp config_json.cpp
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// A node owns its children (a plain value: copies are deep). Mappings keep their order; duplicate
/// keys are an error on reading. Anchors, aliases and merge keys (`<<`) are resolved on reading.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar = {};  ///< text of a scalar
  bool quoted = false;      ///< a quoted scalar is text, whatever it looks like
  std::string origin = {};  ///< "file.yaml:12:5", "--set strategy.bucket_mb=5": for error messages
  std::string key_origin = {};  ///< of the key, when this is a mapping's value
  std::vector<ConfigNode> list = {};
  std::vector<std::pair<std::string, ConfigNode>> map = {};

  /// The value of `key`, or null if absent or this is no mapping.
  const ConfigNode* find(const std::string& key) const;
  ConfigNode* find(const std::string& key);
};

/// Reads one YAML file. Throws ConfigError with line and column for bad syntax, a duplicate key,
/// several documents, an unreadable or empty file.
ConfigNode read_yaml(const std::filesystem::path& file);

/// The same from text, but empty text gives null. Messages call it `origin`.
ConfigNode parse_yaml(const std::string& text, const std::string& origin);

/// The tree as YAML text, without comments. Reading it again gives the same tree.
std::string to_yaml(const ConfigNode& node);

/// The tree on one line, for messages and labels: "{name: mine, bucket_mb: 5}".
std::string compact(const ConfigNode& node);

/// A YAML tree as JSON: plain scalars become null, booleans and numbers, as plain_scalar.h reads
/// them. What JSON cannot say (.inf, .nan) stays text.
nlohmann::json to_json(const ConfigNode& node);

}  // namespace ddprun
