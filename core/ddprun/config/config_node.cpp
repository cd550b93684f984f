// YAML text to ConfigNode and back: the only place that knows yaml-cpp.
#include "ddprun/config/config_node.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

// Far above any experiment; stops aliases of aliases that multiply to gigabytes, and copies of
// anchored values within anchored values.
constexpr std::size_t kMaxValues = 100'000;
constexpr std::int64_t kMaxBytes = 16'000'000;

/// What a tree takes: values, keys too where they were read, and the bytes of their texts.
struct Size {
  std::size_t values = 0;
  std::int64_t bytes = 0;

  void add(const ConfigNode& node) {
    ++values;
    bytes += std::ssize(node.scalar);
    for (const auto& element : node.list) add(element);
    for (const auto& [key, value] : node.map) {
      bytes += std::ssize(key);
      add(value);
    }
  }
};

// Builds the tree from the parser's events, which show duplicate keys, aliases and quotes.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::string origin) : origin_(std::move(origin)) {}

  ConfigNode take_root() { return std::move(root_); }

  std::string position(const YAML::Mark& mark) const {
    return origin_ + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      fail(mark, {.what = "more than one YAML document",
                  .got = "a second document after '---'",
                  .expected = "one document",
                  .hint = "write one file per experiment, or use sweep:"});
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(make(ConfigNode::Kind::null, mark), mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      fail(mark, {.what = "an alias refers to a value that contains it",
                  .got = "an alias inside its own anchor",
                  .expected = "an alias of a value that is complete",
                  .hint = "move the anchor to the part that is meant"});
    }
    size_.add(found->second);
    check_size(mark);
    finish(found->second, mark, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (value.find('\0') != std::string::npos) {
      fail(mark, {.what = "a text has a zero byte",
                  .got = value,
                  .expected = "text that can name files",
                  .hint = "remove \\0 or \\x00"});
    }
    ConfigNode node = make(ConfigNode::Kind::scalar, mark);
    node.scalar = value;
    size_.bytes += std::ssize(value);
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!node.quoted) refuse_tag(mark, tag);
    finish(std::move(node), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({make(ConfigNode::Kind::list, mark), anchor, mark, {}, {}});
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({make(ConfigNode::Kind::map, mark), anchor, mark, {}, {}});
  }
  void OnMapEnd() override {
    merge(open_.back());
    close();
  }

 private:
  // A list or mapping whose end has not come yet.
  struct Open {
    ConfigNode node;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::optional<ConfigNode> key;  // of the pair under way
    std::unordered_set<std::string>
        keys;  // all so far: looking through the pairs would be a square
  };

  [[noreturn]] void fail(const YAML::Mark& mark, ErrorText text) const {
    text.where = position(mark);
    throw ConfigError(std::move(text));
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(mark, {.what = "YAML tags are not supported",
                  .got = tag,
                  .expected = "plain values",
                  .hint = "remove the tag"});
    }
  }

  void check_size(const YAML::Mark& mark) const {
    if (size_.values > kMaxValues) {
      fail(mark,
           {.what = "the file expands to more than " + std::to_string(kMaxValues) + " values",
            .got = std::to_string(size_.values) + " up to here, each key and each alias counted",
            .expected = "at most " + std::to_string(kMaxValues) + " values",
            .hint = "aliases of aliases multiply: write the values out"});
    }
    if (size_.bytes > kMaxBytes) {
      fail(mark, {.what = "the texts of the file expand to more than 16 MB",
                  .got = std::to_string(size_.bytes) + " bytes up to here, those of each alias too",
                  .expected = "at most " + std::to_string(kMaxBytes) + " bytes",
                  .hint = "each alias of a text is a copy of it: shorten the text"});
    }
  }

  ConfigNode make(ConfigNode::Kind kind, const YAML::Mark& mark) {
    ++size_.values;
    check_size(mark);
    return {.kind = kind, .origin = position(mark)};
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    finish(std::move(done.node), done.mark, done.anchor);
  }

  // Puts a complete value where it belongs: the root, the next element, a key, or its value.
  void finish(ConfigNode node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) {
      size_.add(node);  // the copy
      check_size(mark);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == ConfigNode::Kind::list) {
      parent.node.list.push_back(std::move(node));
    } else if (!parent.key) {
      accept_key(parent, std::move(node), mark);
    } else {
      // The parser places a missing value at whatever comes next; its key is where to look.
      if (node.kind == ConfigNode::Kind::null) node.origin = parent.key->origin;
      node.key_origin = parent.key->origin;
      parent.node.map.emplace_back(parent.key->scalar, std::move(node));
      parent.key.reset();
    }
  }

  void accept_key(Open& parent, ConfigNode key, const YAML::Mark& mark) {
    if (key.kind != ConfigNode::Kind::scalar) {
      fail(mark, {.what = "a key must be text",
                  .got = key.kind == ConfigNode::Kind::null ? "nothing" : "a list or mapping",
                  .expected = "key: value",
                  .hint = "quote it, or remove what stands before the colon"});
    }
    key.origin = position(mark);
    if (!parent.keys.insert(key.scalar).second) {
      fail(mark, {.what = "duplicate key '" + key.scalar + "'",
                  .got = "the key a second time",
                  .expected = "each key once",
                  .hint = "the first one is at " + parent.node.find(key.scalar)->key_origin});
    }
    parent.key = std::move(key);
  }

  // Replaces `<<: *other` by the pairs of `other` that are not given explicitly.
  static void merge(Open& open) {
    ConfigNode& node = open.node;
    const auto found =
        std::ranges::find_if(node.map, [](const auto& pair) { return pair.first == "<<"; });
    if (found == node.map.end()) return;
    ConfigNode value = std::move(found->second);
    node.map.erase(found);
    std::vector<ConfigNode> sources = value.list;
    if (value.kind == ConfigNode::Kind::map) sources.push_back(value);
    const bool mappings = std::ranges::all_of(
        sources, [](const auto& source) { return source.kind == ConfigNode::Kind::map; });
    if (sources.empty() || !mappings) {
      throw ConfigError({.what = "'<<' must be given a mapping or a list of mappings",
                         .where = value.key_origin,
                         .got = compact(value),
                         .expected = "<<: *anchor",
                         .hint = "put the anchor on a mapping"});
    }
    for (auto& source : sources) {
      for (auto& pair : source.map) {
        if (open.keys.insert(pair.first).second) node.map.push_back(std::move(pair));
      }
    }
  }

  std::string origin_;
  ConfigNode root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, ConfigNode> anchors_;
  Size size_;
  int documents_ = 0;
};

bool is_collection(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::list || node.kind == ConfigNode::Kind::map;
}

void emit(YAML::Emitter& out, const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      out << YAML::Null;
      break;
    case ConfigNode::Kind::scalar:
      if (node.quoted) out << YAML::DoubleQuoted;
      out << node.scalar;
      break;
    case ConfigNode::Kind::list:
      // Lists of numbers and names read better on one line.
      if (std::ranges::none_of(node.list, is_collection)) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const auto& element : node.list) emit(out, element);
      out << YAML::EndSeq;
      break;
    case ConfigNode::Kind::map:
      out << YAML::BeginMap;
      for (const auto& [key, value] : node.map) {
        out << YAML::Key << key << YAML::Value;
        emit(out, value);
      }
      out << YAML::EndMap;
      break;
  }
}

std::string hint_for(const std::string& yaml_error) {
  if (yaml_error.find("anchor") != std::string::npos) {
    return "text that begins with * or & needs quotes, or it means a YAML alias: \"*.weight\"";
  }
  return "look here and at the line above: indentation, an open bracket or quote";
}

}  // namespace

const ConfigNode* ConfigNode::find(const std::string& key) const {
  const auto found = std::ranges::find_if(map, [&](const auto& pair) { return pair.first == key; });
  return found == map.end() ? nullptr : &found->second;
}

ConfigNode* ConfigNode::find(const std::string& key) {
  return const_cast<ConfigNode*>(std::as_const(*this).find(key));
}

ConfigNode parse_yaml(const std::string& text, const std::string& origin) {
  // The parser takes the end of the text for that of a quote. The end of a document within one is
  // an error. Zero bytes are UTF-16, of which this would be none.
  const bool wide = text.find('\0') != std::string::npos;
  std::istringstream stream(wide ? text : text + "\n...\n");
  Builder builder(origin);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const bool deep = error.msg == YAML::ErrorMsg::BAD_FILE;  // the parser's own word for it
    throw ConfigError({.what = "YAML syntax error: " + (deep ? "too many levels" : error.msg),
                       .where = builder.position(error.mark),
                       .got = "text that is no YAML",
                       .expected = "YAML 1.2",
                       .hint = hint_for(error.msg)});
  }
  return builder.take_root();
}

ConfigNode read_yaml(const std::filesystem::path& file) {
  const auto unreadable = [&](const std::string& reason) -> ConfigError {
    return ConfigError({.what = "cannot read the YAML file",
                        .where = file.string(),
                        .got = reason,
                        .expected = "a file that can be read",
                        .hint = "a folder of files is named on the command line"});
  };
  std::string text;
  try {
    const std::int64_t bytes = RegularFile(file).size();
    if (bytes > kMaxBytes) {
      throw std::runtime_error(with_thousands(bytes) + " bytes: no experiment has 16 MB");
    }
    text = read_whole(file);
  } catch (const std::runtime_error& error) {
    throw unreadable(error.what());
  }
  ConfigNode root = parse_yaml(text, file.string());
  if (root.kind == ConfigNode::Kind::null) {
    throw ConfigError({.what = "the YAML file is empty",
                       .where = file.string(),
                       .got = "comments at most",
                       .expected = "key: value lines",
                       .hint = "configs/ has examples"});
  }
  return root;
}

std::string compact(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      return "null";
    case ConfigNode::Kind::scalar:
      return printable_line(node.quoted ? '"' + node.scalar + '"' : node.scalar);
    case ConfigNode::Kind::list:
      return "[" + list_text(mapped(node.list, compact)) + "]";
    case ConfigNode::Kind::map: {
      const auto text = [](const auto& pair) { return pair.first + ": " + compact(pair.second); };
      return "{" + list_text(mapped(node.map, text)) + "}";
    }
  }
  return {};
}

std::string to_yaml(const ConfigNode& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

}  // namespace ddprun
