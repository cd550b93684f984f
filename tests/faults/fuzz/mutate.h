// Makes bad inputs out of good ones.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ddprun/config/config_node.h"

namespace ddprun::fuzz {

/// Random choices that a seed repeats.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  /// 0 to bound - 1; 0 if bound is 0.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : engine_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// A value that has been trouble somewhere: an edge of a type, or a piece of YAML's syntax.
const std::string& troublesome_value(Dice& dice);

/// The text with some of its bytes flipped, left out, repeated or replaced by trouble. `other` is
/// what pieces are borrowed from.
std::string mutate_text(std::string text, const std::string& other, Dice& dice);

/// Bytes flipped alone: the length stays.
std::string flip_bytes(std::string bytes, std::size_t flips, Dice& dice);

/// The tree with some of its values replaced, removed, renamed, nested or moved.
ConfigNode mutate_tree(ConfigNode root, Dice& dice);

}  // namespace ddprun::fuzz
