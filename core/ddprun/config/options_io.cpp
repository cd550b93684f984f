// Strict reading of declared options: every refusal says where, what was got, what is allowed, and
// what was probably meant.
#include "ddprun/config/options_io.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "ddprun/base/error.h"
#include "ddprun/config/option_text.h"

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

std::optional<bool> parse_bool(const std::string& text) {
  if (plain_type(text) != PlainType::boolean) return std::nullopt;
  return text.front() == 't' || text.front() == 'T';
}

// Nothing if `text` is no number; an infinity if it is none of the finite ones that a double can
// hold.
std::optional<double> parse_number(std::string text) {
  if (plain_type(text) != PlainType::number) return std::nullopt;
  if (text.front() == '+') text.erase(0, 1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? value : HUGE_VAL;
}

// Nothing if `text` is no integer. Scientific notation counts if the value is integral ("1e6"), a
// decimal point alone does not.
std::optional<std::int64_t> parse_integer(std::string text) {
  if (plain_type(text) != PlainType::number) return std::nullopt;
  if (text.front() == '+') text.erase(0, 1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  if (text.find_first_of("eE") == std::string::npos) return std::nullopt;
  const double number = parse_number(text).value_or(HUGE_VAL);
  if (std::abs(number) > 9007199254740992.0 || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// Reads one value of a declared option; knows how to complain about it.
class ValueReader {
 public:
  ValueReader(const OptionSpec& spec, const std::string& where, std::string type)
      : spec_(spec), where_(where), type_(std::move(type)), key_(spec.key) {}

  void read(const ConfigNode& node, bool& out) const {
    const auto value = plain(node) ? parse_bool(node.scalar) : std::nullopt;
    if (!value) fail_type(node, bool_hint(node));
    out = *value;
  }

  void read(const ConfigNode& node, std::int64_t& out) const {
    const auto value = plain(node) ? parse_integer(node.scalar) : std::nullopt;
    if (!value) fail_type(node, integer_hint(node));
    check_range(node, static_cast<double>(*value));
    out = *value;
  }

  void read(const ConfigNode& node, double& out) const {
    const auto value = plain(node) ? parse_number(node.scalar) : std::nullopt;
    if (!value) fail_type(node, quoted_hint(node));
    if (!std::isfinite(*value)) fail(node, "must be a finite number", "");
    check_range(node, *value);
    out = *value;
  }

  void read(const ConfigNode& node, std::string& out) const {
    if (node.kind != ConfigNode::Kind::scalar) fail_type(node, null_hint(node));
    if (!node.quoted && plain_type(node.scalar) != PlainType::text) {
      fail_type(node, "quote it to make it text: \"" + node.scalar + "\"");
    }
    const auto& allowed = spec_.limits.one_of;
    if (!allowed.empty() &&
        std::find(allowed.begin(), allowed.end(), node.scalar) == allowed.end()) {
      const std::string near = nearest(node.scalar, allowed);
      fail(node, "cannot be '" + node.scalar + "'",
           near.empty() ? "" : "did you mean '" + near + "'?");
    }
    out = node.scalar;
  }

  template <class T>
  void read(const ConfigNode& node, std::vector<T>& out) {
    if (node.kind != ConfigNode::Kind::list && node.kind != ConfigNode::Kind::scalar) {
      fail_type(node, null_hint(node));
    }
    // One value stands for a list of one.
    const std::vector<ConfigNode> elements =
        node.kind == ConfigNode::Kind::list ? node.list : std::vector<ConfigNode>{node};
    std::vector<T> values(elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (node.kind == ConfigNode::Kind::list) key_ = spec_.key + "[" + std::to_string(i) + "]";
      read(elements[i], values[i]);
    }
    out = std::move(values);
  }

 private:
  static bool plain(const ConfigNode& node) {
    return node.kind == ConfigNode::Kind::scalar && !node.quoted;
  }

  [[noreturn]] void fail(const ConfigNode& node, const std::string& complaint,
                         std::string hint) const {
    const std::string allowed = allowed_text(spec_.limits);
    std::string expected = spec_.limits.one_of.empty()
                               ? type_ + (allowed.empty() ? "" : ", " + allowed)
                               : "one of " + allowed;
    if (!spec_.help.empty()) expected += " (" + spec_.help + ")";
    throw ConfigError({quote_key(key_, where_) + " " + complaint, node.origin, describe(node),
                       std::move(expected), std::move(hint)});
  }

  [[noreturn]] void fail_type(const ConfigNode& node, std::string hint) const {
    fail(node, "has the wrong type", std::move(hint));
  }

  void check_range(const ConfigNode& node, double value) const {
    const Limits& limits = spec_.limits;
    if ((limits.min && value < *limits.min) || (limits.max && value > *limits.max)) {
      fail(node, "is out of range", "");
    }
  }

  static std::string null_hint(const ConfigNode& node) {
    return node.kind == ConfigNode::Kind::null ? "give it a value, or remove the line" : "";
  }

  static std::string quoted_hint(const ConfigNode& node) {
    return node.quoted ? "remove the quotes" : null_hint(node);
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
    read_options(child ? *child : absent, where_.empty() ? key : where_ + "." + key, declare);
  }

  void refuse_unknown() const {
    for (const auto& [key, value] : node_.map) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const std::string near = nearest(key, known_);
      throw ConfigError({"unknown key " + quote_key(key, where_), value.key_origin, "",
                         known_.empty() ? "no keys: it has no options" : join(known_),
                         near.empty() ? "" : "did you mean '" + near + "'?"});
    }
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    remember(spec.key);
    const ConfigNode* value = node_.find(spec.key);
    if (value == nullptr) return false;
    ValueReader reader(spec, where_, type_name(target));
    std::visit([&](auto* variable) { reader.read(*value, *variable); }, target);
    return true;
  }

 private:
  void remember(const std::string& key) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) {
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
    std::vector<std::string> keys;
    for (const auto& info : list_options(declare)) keys.push_back(info.key);
    const bool named = node.kind == ConfigNode::Kind::scalar &&
                       std::find(keys.begin(), keys.end(), "name") != keys.end();
    throw ConfigError({(where.empty() ? "the document" : where) + " must be a mapping", node.origin,
                       describe(node), "a mapping with keys " + join(keys),
                       named ? "write {name: " + compact(node) + "}" : ""});
  }
  Reader reader(node, where, ignore);
  declare(reader);
  reader.refuse_unknown();
}

}  // namespace ddprun
