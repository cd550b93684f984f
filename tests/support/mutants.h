// Documents that differ from a given one in one place, as mistakes of people do.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"

namespace ddprun::test {

/// A document, and what was done to it.
struct Mutant {
  ConfigNode document;
  std::string change;         ///< "rename train.steps to stepss"
  std::string path;           ///< of the key, dotted; elements of lists are left out
  std::string new_path = {};  ///< where it went; empty: it stayed, or is gone
};

/// Draws mutants of documents, whose keys and texts it takes for others.
class Mutator {
 public:
  Mutator(std::uint64_t seed, const std::vector<ConfigNode>& documents)
      : random_(seed), documents_(documents) {
    for (const ConfigNode& document : documents) learn(document);
  }

  Mutant draw() {
    Mutant mutant{documents_[below(documents_.size())], {}, {}, {}};
    std::vector<Place> places;
    find_places(mutant.document, "", places);
    const Place place = places[below(places.size())];
    mutant.path = place.path;
    switch (below(5)) {
      case 0:
        mutant.change = "delete " + place.path;
        place.remove();
        break;
      case 1:
        rename(place, mutant);
        break;
      case 2:
        mutant.change = "retype " + place.path;
        retype(place.pair().second, mutant.change);
        break;
      case 3:
        misplace(place, places[below(places.size())], mutant);
        break;
      default:
        mutant.change = "other text at " + place.path;
        retext(place.pair().second, mutant.change);
    }
    return mutant;
  }

 private:
  /// A key of a mapping, and its value.
  struct Place {
    ConfigNode* mapping;
    std::size_t index;
    std::string path;

    std::pair<std::string, ConfigNode>& pair() const { return mapping->map[index]; }
    void remove() const { mapping->map.erase(mapping->map.begin() + static_cast<long>(index)); }
  };

  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }

  void learn(const ConfigNode& node) {
    if (node.kind == ConfigNode::Kind::scalar) texts_.push_back(node.scalar);
    for (const ConfigNode& element : node.list) learn(element);
    for (const auto& [key, value] : node.map) {
      keys_.push_back(key);
      learn(value);
    }
  }

  static void find_places(ConfigNode& node, const std::string& path, std::vector<Place>& out) {
    for (ConfigNode& element : node.list) find_places(element, path, out);
    for (std::size_t i = 0; i < node.map.size(); ++i) {
      const std::string below = (path.empty() ? "" : path + ".") + node.map[i].first;
      out.push_back({&node, i, below});
      find_places(node.map[i].second, below, out);
    }
  }

  /// The path of a key that stands beside that of `path`.
  static std::string beside(const std::string& path, const std::string& key) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string::npos ? key : path.substr(0, dot + 1) + key;
  }

  void rename(const Place& place, Mutant& mutant) {
    std::string key = place.pair().first;
    if (below(2) == 0) {
      key = keys_[below(keys_.size())];
    } else {
      key.insert(below(key.size() + 1), 1, key.front());
    }
    mutant.change = "rename " + place.path + " to " + key;
    mutant.new_path = beside(place.path, key);
    if (place.mapping->find(key) == nullptr) place.pair().first = key;  // else YAML forbids it
  }

  void misplace(const Place& place, const Place& target, Mutant& mutant) {
    mutant.change = "move " + place.path + " beside " + target.path;
    const std::pair<std::string, ConfigNode> pair = place.pair();
    mutant.new_path = beside(target.path, pair.first);
    const bool within = target.path.starts_with(place.path);  // it would move into itself
    if (within || target.mapping->find(pair.first) != nullptr) return;
    place.pair().first = kMoved;  // removed once nothing points into the document any more
    target.mapping->map.push_back(pair);
    remove_moved(mutant.document);
  }

  static void remove_moved(ConfigNode& node) {
    for (ConfigNode& element : node.list) remove_moved(element);
    std::erase_if(node.map, [](const auto& pair) { return pair.first == kMoved; });
    for (auto& [key, value] : node.map) remove_moved(value);
  }

  /// Some value of the node: its own, or that of one of its elements.
  ConfigNode& value_in(ConfigNode& node) {
    if (node.kind != ConfigNode::Kind::list || node.list.empty() || below(3) == 0) return node;
    return value_in(node.list[below(node.list.size())]);
  }

  void retype(ConfigNode& node, std::string& change) {
    static const char* const values[] = {
        "3",      "-1", "2.5", "1e9",       "true",  "words", "\"7\"",         "null",
        "[4, 5]", "[]", "{}",  "{size: 2}", "[[1]]", "1e30",  "[words, null]", "{from: 1, to: 4}"};
    const std::string value = values[below(std::size(values))];
    change += " to " + value;
    ConfigNode& old = value_in(node);
    ConfigNode fresh = parse_yaml("v: " + value, "mutant").map.front().second;
    old = std::move(fresh);
  }

  void retext(ConfigNode& node, std::string& change) {
    ConfigNode& value = value_in(node);
    value = ConfigNode{};
    value.kind = ConfigNode::Kind::scalar;
    value.scalar = texts_[below(texts_.size())];
    change += ": " + value.scalar;
  }

  static constexpr const char* kMoved = "(moved)";

  std::mt19937_64 random_;
  const std::vector<ConfigNode>& documents_;
  std::vector<std::string> keys_, texts_;
};

}  // namespace ddprun::test
