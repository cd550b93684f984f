// The other visitors of declared options: writing their values, listing them, and finding the
// nearest name; the words of types and limits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "ddprun/base/ranges.h"
#include "ddprun/config/option_text.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plain_scalar.h"

namespace ddprun {

namespace {

ConfigNode scalar_node(std::string text) {
  return {.kind = ConfigNode::Kind::scalar, .scalar = std::move(text)};
}

ConfigNode to_node(bool value) { return scalar_node(value ? "true" : "false"); }
ConfigNode to_node(std::int64_t value) { return scalar_node(std::to_string(value)); }
ConfigNode to_node(double value) { return scalar_node(number_text(value)); }
ConfigNode to_node(const std::string& value) { return text_node(value); }

template <class T>
ConfigNode to_node(const std::vector<T>& values) {
  return {.kind = ConfigNode::Kind::list,
          .list = mapped(values, [](const auto& value) { return to_node(value); })};
}

template <class T>
ConfigNode to_node(const T* variable) {
  return to_node(*variable);
}
template <class T>
ConfigNode to_node(const std::optional<T>* variable) {
  return *variable ? to_node(**variable) : ConfigNode{};
}
ConfigNode to_node(ChoiceTarget choice) { return to_node(std::string(choice.name())); }

ConfigNode to_node(const SectionList& sections) {
  ConfigNode node{.kind = ConfigNode::Kind::list};
  for (std::size_t i = 0; i < sections.size; ++i) {
    node.list.push_back(write_options([&](Options& options) { sections.declare(i, options); }));
  }
  return node;
}

ConfigNode value_of(const OptionTarget& target) {
  return std::visit([](const auto& variable) { return to_node(variable); }, target);
}

class Writer : public Options {
 public:
  Writer() { node_.kind = ConfigNode::Kind::map; }

  ConfigNode take() { return std::move(node_); }

  void section(const std::string& key, const std::string&,
               const std::function<void(Options&)>& declare) override {
    node_.map.emplace_back(key, write_options(declare));
  }

  void list(const std::string& key, const std::string&, const SectionList& elements) override {
    node_.map.emplace_back(key, to_node(elements));
  }

  void choice_or_section(const std::string& key, ChoiceTarget choice, const std::string&,
                         const std::function<void(Options&)>& declare) override {
    ConfigNode section = write_options(declare);
    node_.map.emplace_back(key, section.map.empty() ? to_node(choice) : std::move(section));
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    ConfigNode value = value_of(target);
    if (value.kind != ConfigNode::Kind::null) node_.map.emplace_back(spec.key, std::move(value));
    return false;
  }

 private:
  ConfigNode node_;
};

class Lister : public Options {
 public:
  std::vector<OptionInfo> take() { return std::move(infos_); }

  void section(const std::string& key, const std::string&,
               const std::function<void(Options&)>& declare) override {
    for (auto& info : list_options(declare)) {
      info.key = key + "." + info.key;
      infos_.push_back(std::move(info));
    }
  }

  void list(const std::string& key, const std::string& help, const SectionList& elements) override {
    infos_.push_back({key, "list of mappings", compact(to_node(elements)),
                      "mappings with " + options_text(elements.declare_new), help});
  }

  void choice_or_section(const std::string& key, ChoiceTarget choice, const std::string& help,
                         const std::function<void(Options&)>& declare) override {
    infos_.push_back({key, "text or mapping", choice.name(), allowed_text(choice, declare), help});
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    infos_.push_back({spec.key, type_name(target), compact(value_of(target)),
                      allowed_text(spec.limits), spec.help});
    return false;
  }

 private:
  std::vector<OptionInfo> infos_;
};

// Insertions, deletions, substitutions and swaps of neighbours between a and b, case aside.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::vector<std::size_t>> distance(a.size() + 1,
                                                 std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      auto& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                       distance[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        here = std::min(here, distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance.back().back();
}

}  // namespace

ConfigNode text_node(const std::string& text) {
  ConfigNode node = scalar_node(text);
  node.quoted = plain_type(text) != PlainType::text;
  return node;
}

ConfigNode write_options(const std::function<void(Options&)>& declare) {
  Writer writer;
  declare(writer);
  return writer.take();
}

std::vector<OptionInfo> list_options(const std::function<void(Options&)>& declare) {
  Lister lister;
  declare(lister);
  return lister.take();
}

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = 0;
  for (const auto& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (3 * (longer - shorter) > longer) continue;  // so a name of megabytes costs nothing
    const std::size_t distance = edit_distance(name, candidate);
    if (3 * distance > longer) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& otherwise) {
  const std::string near = nearest(name, candidates);
  return near.empty() ? otherwise : "did you mean '" + near + "'?";
}

std::string type_name(const OptionTarget& target) {
  constexpr std::array<const char*, std::variant_size_v<OptionTarget>> kNames = {
      "true or false", "integer", "integer",         "number",           "number",
      "text",          "text",    "list of numbers", "list of integers", "list of texts"};
  return kNames[target.index()];
}

std::string allowed_text(const Limits& limits) {
  if (!limits.one_of.empty()) return list_text(limits.one_of);
  if (limits.min && limits.max) return number_text(*limits.min) + " to " + number_text(*limits.max);
  if (limits.min) return ">= " + number_text(*limits.min);
  if (limits.max) return "<= " + number_text(*limits.max);
  return {};
}

std::string options_text(const std::function<void(Options&)>& declare) {
  return list_text(mapped(list_options(declare), [](const OptionInfo& option) {
    return option.key + (option.allowed.empty() ? "" : " (" + option.allowed + ")");
  }));
}

std::string allowed_text(ChoiceTarget choice, const std::function<void(Options&)>& declare) {
  return fmt::format("{}, or a mapping with {}", fmt::join(choice.names(), ", "),
                     options_text(declare));
}

}  // namespace ddprun
