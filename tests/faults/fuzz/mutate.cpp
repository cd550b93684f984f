// Mutations of texts, bytes and trees.
#include "faults/fuzz/mutate.h"

#include <algorithm>
#include <utility>

namespace ddprun::fuzz {

namespace {

using Kind = ConfigNode::Kind;

/// A piece of the text: where it begins, and how long it is.
std::pair<std::size_t, std::size_t> piece_of(const std::string& text, Dice& dice) {
  const std::size_t begin = dice.below(text.size() + 1);
  const std::size_t longest = std::min<std::size_t>(text.size() - begin, dice.one_in(4) ? 400 : 12);
  return {begin, dice.below(longest + 1)};
}

void mutate_once(std::string& text, const std::string& other, Dice& dice) {
  const auto [begin, count] = piece_of(text, dice);
  switch (dice.below(7)) {
    case 0:
      if (begin < text.size()) text[begin] = static_cast<char>(text[begin] ^ (1 << dice.below(8)));
      break;
    case 1:
      text.erase(begin, count);
      break;
    case 2:
      text.insert(begin, text.substr(begin, count));
      break;
    case 3:
      text.replace(begin, count, troublesome_value(dice));
      break;
    case 4: {
      const auto [from, length] = piece_of(other, dice);
      text.replace(begin, count, other.substr(from, length));
      break;
    }
    case 5:
      text.insert(begin, 1 + dice.below(dice.one_in(20) ? 5000 : 5),
                  dice.pick(std::vector<char>{'\0', '\t', ' ', '\n', '[', '{', '-', 'x', '9', '&',
                                              '"', '\'', '\xff', '\x1b', '#', ':'}));
      break;
    default:
      if (dice.one_in(4)) text.resize(begin);
  }
}

std::vector<ConfigNode*> nodes_of(ConfigNode& root) {
  std::vector<ConfigNode*> found = {&root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (auto& element : found[i]->list) found.push_back(&element);
    for (auto& [key, value] : found[i]->map) found.push_back(&value);
  }
  return found;
}

ConfigNode scalar(std::string text, bool quoted) {
  ConfigNode node;
  node.kind = Kind::scalar;
  node.scalar = std::move(text);
  node.quoted = quoted;
  return node;
}

ConfigNode nested(ConfigNode node, std::size_t depth, bool in_list) {
  for (std::size_t i = 0; i < depth; ++i) {
    ConfigNode outer;
    outer.kind = in_list ? Kind::list : Kind::map;
    if (in_list) {
      outer.list.push_back(std::move(node));
    } else {
      outer.map.emplace_back("name", std::move(node));
    }
    node = std::move(outer);
  }
  return node;
}

/// Renames, removes or repeats a key of a mapping.
void mutate_keys(ConfigNode& node, Dice& dice) {
  if (node.map.empty()) return;
  const std::size_t at = dice.below(node.map.size());
  auto& pair = node.map[at];
  switch (dice.below(4)) {
    case 0:
      pair.first = mutate_text(pair.first, pair.first, dice);
      break;
    case 1:
      pair.first = troublesome_value(dice);
      break;
    case 2:
      node.map.erase(node.map.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    default:
      node.map.push_back(pair);
  }
}

void mutate_once(ConfigNode& root, Dice& dice) {
  const std::vector<ConfigNode*> nodes = nodes_of(root);
  ConfigNode& node = *dice.pick(nodes);
  switch (dice.below(6)) {
    case 0:
    case 1:
      node = scalar(troublesome_value(dice), dice.one_in(4));
      break;
    case 2:
      node = ConfigNode(*dice.pick(nodes));
      break;
    case 3:
      node = nested(std::move(node), 1 + dice.below(dice.one_in(10) ? 300 : 3), dice.one_in(2));
      break;
    case 4:
      node.quoted = !node.quoted;
      node.scalar = mutate_text(node.scalar, node.scalar, dice);
      break;
    default:
      mutate_keys(node, dice);
  }
}

template <class... Each>
std::vector<std::string> strings(const Each&... each) {
  return {std::string(each)...};
}

}  // namespace

const std::string& troublesome_value(Dice& dice) {
  static const std::vector<std::string> values = strings(
      "", "~", "null", "true", "yes", "0", "1", "-1", "2", "3", "7", "1e9", "1e18", "1e308",
      "1e999", "-0.0", ".inf", "-.inf", ".nan", "9223372036854775807", "0x10", "1_000", "0.5",
      "1e-320", "9223372036854775808", "4096", "16777216", "2147483648", "1000000000",
      "-9223372036854775808", "\"5\"", "''", "[]", "{}", "[1, 2]", "[[1], 2]", "{a: b}",
      "{name: flat}", "{name: 5}", "{path: x.so, name: flat}", "*a", "&a b", "&a [*a]", "!!str 5",
      "!x y", "<<: *a", "|", ">-", "? a", "- - -", "{{{", "[[[[", "---", "...", "%YAML 1.2", "\n",
      "\t", "#", ": ", "@", "`", "é", "\xff\xfe", "\x1b[31m", "\xe2\x80\xae", "..", ".", "texts",
      "tokens.bin", "fuzz.yaml", "sweep:", "sweep: {strategy: [flat, naive]}",
      "sweep: {a.b.c: [1, 2, 3]}", "flat", "bucketed", "fp32", "bf16_true", "bf16_pure", "fp8",
      "eager", "flash", "cuda", "nccl", "gloo", "tokens", "text", "uint32", "cosine", "sgd",
      "latest", "a.b", "a..b", "name", "train.steps", std::string(1, '\0'), std::string(300, 'n'),
      std::string(20'000, 'x'), std::string(3000, '['), std::string(2000, '9'));
  return dice.pick(values);
}

std::string mutate_text(std::string text, const std::string& other, Dice& dice) {
  const std::size_t times = dice.one_in(2) ? 1 : 1 + dice.below(12);
  for (std::size_t i = 0; i < times; ++i) mutate_once(text, other, dice);
  return text;
}

std::string flip_bytes(std::string bytes, std::size_t flips, Dice& dice) {
  for (std::size_t i = 0; i < flips && !bytes.empty(); ++i) {
    char& byte = bytes[dice.below(bytes.size())];
    byte = static_cast<char>(byte ^ (1 + dice.below(255)));
  }
  return bytes;
}

ConfigNode mutate_tree(ConfigNode root, Dice& dice) {
  const std::size_t times = dice.one_in(2) ? 1 : 1 + dice.below(4);
  for (std::size_t i = 0; i < times; ++i) mutate_once(root, dice);
  return root;
}

}  // namespace ddprun::fuzz
