// Strict reading of declared options: every refusal says where, what was got, what is allowed, and
// what was probably meant.
#include "ddprun/config/options_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/option_text.h"
#include "ddprun/config/plain_scalar.h"

namespace ddprun {

namespace {

// "'steps' in train", "'name'" at the top.
std::string quote_key(const std::string& key, const std::string& where) {
  return "'" + key + "'" + (where.empty() ? "" : " in " + where);
}

std::string describe(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      return "no value";
    case ConfigNode::Kind::scalar:
      return compact(node) + (node.quoted ? " (text, because it is quoted)" : "");
    case ConfigNode::Kind::list:
      return "the list " + compact(node);
    case ConfigNode::Kind::map:
      return "the mapping " + compact(node);
  }
  return {};
}

class ValueReader {
 public:
  ValueReader(const OptionSpec& spec, const std::string& where, std::string type,
              std::string allowed)
      : spec_(spec),
        where_(where),
        type_(std::move(type)),
        allowed_(std::move(allowed)),
        key_(spec.key) {}

  void read(const ConfigNode& node, bool* out) const {
    const auto value = plain(node) ? parse_bool(node.scalar) : std::nullopt;
    if (!value) fail_type(node, bool_hint(node));
    *out = *value;
  }

  void read(const ConfigNode& node, std::int64_t* out) const {
    const auto value = plain(node) ? parse_integer(node.scalar) : std::nullopt;
    if (!value) fail_integer(node);
    check_range(node, static_cast<double>(*value));
    *out = *value;
  }

  void read(const ConfigNode& node, double* out) const {
    const auto value = plain(node) ? parse_number(node.scalar) : std::nullopt;
    if (!value) fail_number(node, quoted_hint(node));
    if (!std::isfinite(*value)) fail(node, {.what = quoted_key() + " must be a finite number"});
    check_range(node, *value);
    *out = *value;
  }

  template <class T>
  void read(const ConfigNode& node, std::optional<T>* out) const {
    read(node, &out->emplace());
  }

  void read(const ConfigNode& node, std::string* out) const {
    if (node.kind != ConfigNode::Kind::scalar) fail_type(node, null_hint(node));
    if (!node.quoted && plain_type(node.scalar) != PlainType::text) {
      fail_type(node, "quote it to make it text: \"" + node.scalar + "\"");
    }
    const auto& allowed = spec_.limits.one_of;
    if (!allowed.empty() && !contains(allowed, node.scalar)) {
      fail(node, {.what = quoted_key() + " cannot be '" + node.scalar + "'",
                  .hint = did_you_mean(node.scalar, allowed, "")});
    }
    *out = node.scalar;
  }

  void read(const ConfigNode& node, ChoiceTarget out) const {
    std::string name;
    read(node, &name);
    const auto& names = spec_.limits.one_of;
    out.set(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin()));
  }

  /// For what no variable stands for.
  [[noreturn]] void refuse(const ConfigNode& node) const { fail_type(node, null_hint(node)); }

  template <class T>
  void read(const ConfigNode& node, std::vector<T>* out) {
    if (node.kind != ConfigNode::Kind::list && node.kind != ConfigNode::Kind::scalar) {
      fail_type(node, null_hint(node));
    }
    // One value stands for a list of one.
    const std::vector<ConfigNode> elements =
        node.kind == ConfigNode::Kind::list ? node.list : std::vector<ConfigNode>{node};
    std::vector<T> values(elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (node.kind == ConfigNode::Kind::list) key_ = spec_.key + "[" + std::to_string(i) + "]";
      read(elements[i], &values[i]);
    }
    *out = std::move(values);
  }

 private:
  static bool plain(const ConfigNode& node) {
    return node.kind == ConfigNode::Kind::scalar && !node.quoted;
  }

  [[noreturn]] void fail(const ConfigNode& node, ErrorText text) const {
    text.where = node.origin;
    text.got = describe(node);
    text.expected = spec_.limits.one_of.empty() ? type_ + (allowed_.empty() ? "" : ", " + allowed_)
                                                : "one of " + allowed_;
    if (!spec_.help.empty()) text.expected += " (" + spec_.help + ")";
    if (text.hint.empty())
      text.hint = "`ddprun describe NAME` shows the keys of a section or plugin";
    throw ConfigError(std::move(text));
  }

  std::string quoted_key() const { return quote_key(key_, where_); }

  [[noreturn]] void fail_type(const ConfigNode& node, std::string hint) const {
    fail(node, {.what = quoted_key() + " has the wrong type", .hint = std::move(hint)});
  }

  /// Of what is no number, or one of two.
  [[noreturn]] void fail_number(const ConfigNode& node, std::string hint) const {
    if (!plain(node) || !reads_as_two_numbers(node.scalar)) fail_type(node, std::move(hint));
    fail(node, {.what = quoted_key() + " can be read as two numbers",
                .hint = "YAML 1.1 takes digits after a zero for octal, YAML 1.2 for decimal: leave "
                        "the zero out"});
  }

  /// Of what is no integer, or one of more bits than we have.
  [[noreturn]] void fail_integer(const ConfigNode& node) const {
    const double number = plain(node) ? parse_number(node.scalar).value_or(0) : 0;
    const bool whole = number == std::trunc(number) && node.scalar.find('.') == std::string::npos;
    if (!whole || std::abs(number) < kMostExact) fail_number(node, integer_hint(node));
    fail(node, {.what = quoted_key() + " is out of range",
                .hint = "integers have 64 bits, those with an exponent 53"});
  }

  void check_range(const ConfigNode& node, double value) const {
    const Limits& limits = spec_.limits;
    if ((limits.min && value < *limits.min) || (limits.max && value > *limits.max)) {
      fail(node, {.what = quoted_key() + " is out of range"});
    }
  }

  static std::string null_hint(const ConfigNode& node) {
    return node.kind == ConfigNode::Kind::null ? "give it a value, or remove the line" : "";
  }

  static std::string quoted_hint(const ConfigNode& node) {
    const bool quotes_alone = node.quoted && plain_type(node.scalar) != PlainType::text;
    return quotes_alone ? "remove the quotes" : null_hint(node);
  }

  static std::string bool_hint(const ConfigNode& node) {
    if (node.scalar == "yes" || node.scalar == "on") return "write true";
    if (node.scalar == "no" || node.scalar == "off") return "write false";
    return quoted_hint(node);
  }

  static std::string integer_hint(const ConfigNode& node) {
    std::string digits = node.scalar;
    std::erase(digits, '_');
    if (digits != node.scalar && parse_integer(digits)) return "write " + digits;
    const double number = parse_number(node.scalar).value_or(HUGE_VAL);
    if (std::abs(number) < 1e15 && number == std::trunc(number) && !node.quoted) {
      return "write " + number_text(number);
    }
    return quoted_hint(node);
  }

  const OptionSpec& spec_;
  const std::string& where_;
  std::string type_;
  std::string allowed_;
  std::string key_;  // spec_.key, with the element's index inside a list
};

class Reader : public Options {
 public:
  Reader(const ConfigNode& node, std::string where, std::vector<std::string> ignore)
      : node_(node), where_(std::move(where)), known_(std::move(ignore)) {}

  void section(const std::string& key, const std::string&,
               const std::function<void(Options&)>& declare) override {
    remember(key);
    const ConfigNode* child = node_.find(key);
    const ConfigNode absent;
    read_options(child ? *child : absent, path_of(key), declare);
  }

  void list(const std::string& key, const std::string& help, const SectionList& elements) override {
    remember(key);
    const ConfigNode* value = node_.find(key);
    if (value == nullptr) return;
    std::vector<ConfigNode> nodes = {*value};  // one mapping stands for a list of one
    if (value->kind == ConfigNode::Kind::list) nodes = value->list;
    const OptionSpec spec{key, help, {}};
    elements.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == ConfigNode::Kind::null) {
        ValueReader(spec, where_, "list of mappings", options_text(elements.declare_new))
            .refuse(nodes[i]);
      }
      read_options(nodes[i], path_of(key) + "[" + std::to_string(i) + "]",
                   [&](Options& options) { elements.declare(i, options); });
    }
  }

  void choice_or_section(const std::string& key, ChoiceTarget choice, const std::string& help,
                         const std::function<void(Options&)>& declare) override {
    remember(key);
    const ConfigNode* value = node_.find(key);
    if (value == nullptr) return;
    if (value->kind == ConfigNode::Kind::map && !value->map.empty()) {
      read_options(*value, path_of(key), declare);
      return;
    }
    const OptionSpec spec{key, help, {.one_of = {choice.names().begin(), choice.names().end()}}};
    ValueReader(spec, where_, "text", allowed_text(choice, declare)).read(*value, choice);
  }

  void refuse_unknown() const {
    for (const auto& [key, value] : node_.map) {
      if (contains(known_, key)) continue;
      throw ConfigError(
          {.what = "unknown key " + quote_key(key, where_),
           .where = value.key_origin,
           .got = compact(value),
           .expected = known_.empty() ? "no keys: it has no options" : list_text(known_),
           .hint = did_you_mean(key, known_, "remove it")});
    }
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    remember(spec.key);
    const ConfigNode* value = node_.find(spec.key);
    if (value == nullptr) return false;
    ValueReader reader(spec, where_, type_name(target), allowed_text(spec.limits));
    std::visit([&](auto variable) { reader.read(*value, variable); }, target);
    return true;
  }

 private:
  std::string path_of(const std::string& key) const {
    return where_.empty() ? key : where_ + "." + key;
  }

  void remember(const std::string& key) {
    if (contains(known_, key)) {
      throw std::logic_error("option " + quote_key(key, where_) + " is declared twice");
    }
    known_.push_back(key);
  }

  const ConfigNode& node_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace

void read_options(const ConfigNode& node, const std::string& where,
                  const std::function<void(Options&)>& declare,
                  const std::vector<std::string>& ignore) {
  if (node.kind != ConfigNode::Kind::null && node.kind != ConfigNode::Kind::map) {
    const std::vector<std::string> keys = mapped(list_options(declare), &OptionInfo::key);
    const bool named = node.kind == ConfigNode::Kind::scalar && contains(keys, "name");
    const std::string section = where.empty() ? "the document" : where;
    throw ConfigError(
        {.what = section + " must be a mapping",
         .where = node.origin,
         .got = describe(node),
         .expected = fmt::format("a mapping with keys {}", fmt::join(keys, ", ")),
         .hint = named ? "write {name: " + compact(node) + "}" : "write `key: value` lines"});
  }
  Reader reader(node, where, ignore);
  declare(reader);
  reader.refuse_unknown();
}

}  // namespace ddprun
