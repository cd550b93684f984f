// From the words of --over to the settings that are tried.
#include "runner/tune/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plugin_choice.h"
#include "ddprun/config/plugin_library.h"
#include "ddprun/config/sweep.h"

namespace ddprun {

namespace {

constexpr const char* kOver = "--over";

/// Keys that change how a step is computed, each with the values that are tried where nobody says
/// others. Of plugins these are the installed ones.
const std::map<std::string, std::vector<std::string>>& tunable() {
  static const std::map<std::string, std::vector<std::string>> keys = {
      {"strategy", {}},
      {"strategy.bucket_mb", {"1", "4", "25", "100"}},
      {"precision", {}},
      {"attention", {}},
      {"model.kernels", {"fused", "reference"}},
      {"model.recompute", {"none", "every_block"}},
      {"model.unit", {"block", "layer"}},
      {"optimizer.overlap", {"false", "true"}},
      {"train.accumulate", {"1", "2", "4"}},
      {"world.backend", {"gloo", "shm", "nccl"}},
      {"world.gloo_threads", {}},
      {"world.threads_per_rank", {}},
      {"world.pin", {"true", "false"}},
      {"execution.mode", {}}};
  return keys;
}

/// The kind of plugin whose option that is: "strategy.bucket_mb".
std::optional<PluginKind> plugin_of_option(const std::string& key) {
  for (const PluginKind kind : kPluginKinds) {
    if (key.starts_with(std::string(to_string(kind)) + ".")) return kind;
  }
  return {};
}

std::optional<PluginKind> plugin_of_key(const std::string& key) {
  for (const PluginKind kind : kPluginKinds) {
    if (key == to_string(kind)) return kind;
  }
  return {};
}

std::string option_of(const std::string& key) { return key.substr(key.find('.') + 1); }

/// The parts between `mark`, but not within brackets or quotes.
std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (c == mark && depth == 0 && quote == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

ConfigNode value_of(const std::string& text, const std::string& key) {
  const std::string origin = fmt::format("{} {}", kOver, key);
  ConfigNode value = parse_yaml(text, origin);
  value.origin = value.key_origin = origin;
  return value;
}

TunedKey parse_key(const std::string& word) {
  const std::size_t equals = word.find('=');
  TunedKey out{.key = word.substr(0, equals)};
  if (equals == std::string::npos) return out;
  for (const std::string& text : split(word.substr(equals + 1), '|')) {
    if (text.empty()) {
      throw ConfigError({.what = "a value of --over is empty",
                         .where = kOver,
                         .got = word,
                         .expected = "values between bars",
                         .hint = "as in train.accumulate=1|2|4"});
    }
    out.values.push_back(value_of(text, out.key));
  }
  return out;
}

std::string all_tunable() { return list_text(std::views::keys(tunable())); }

[[noreturn]] void refuse_unknown(const std::string& key, std::vector<std::string> names) {
  for (const auto& [name, unused] : tunable()) names.push_back(name);
  throw ConfigError({.what = "--over names a key that no experiment has",
                     .where = kOver,
                     .got = key,
                     .expected = all_tunable() + ", options of plugins",
                     .hint = did_you_mean(key, names,
                                          "`ddprun describe NAME` lists the keys of a section, and "
                                          "the options of a plugin")});
}

/// An option that no installed plugin has is a mistake of typing.
void check_option(const std::string& key, const TunedPlugins& plugins) {
  const std::optional<PluginKind> kind = plugin_of_option(key);
  if (!kind) return;
  const std::vector<std::string> names = plugins.names(*kind);
  const bool known = std::ranges::any_of(names, [&](const std::string& name) {
    return plugins.has_option(*kind, name, option_of(key));
  });
  if (!known) refuse_unknown(key, {});
}

/// Of a choice of a plugin; empty: it has none.
std::string name_in(const ConfigNode& choice) {
  if (choice.kind == ConfigNode::Kind::scalar) return choice.scalar;
  const ConfigNode* const name = choice.find("name");
  return name == nullptr ? std::string() : name->scalar;
}

/// The values of a key that the sweep has; null: it has none.
const std::vector<ConfigNode>* swept(const ConfigNode& document, const std::string& key) {
  const ConfigNode* const sweep = document.find(kSweepKey);
  const ConfigNode* const values = sweep == nullptr ? nullptr : sweep->find(key);
  return values == nullptr ? nullptr : &values->list;
}

std::vector<ConfigNode> declared(const std::string& key, const TunedPlugins& plugins) {
  const std::optional<PluginKind> kind = plugin_of_key(key);
  std::vector<std::string> texts;
  if (kind && *kind != PluginKind::precision) {
    texts = plugins.names(*kind);
  } else if (const auto known = tunable().find(key); known != tunable().end()) {
    texts = known->second;
  }
  if (texts.empty()) {
    throw ConfigError(
        {.what = "nothing says which values of the key are tried",
         .where = fmt::format("{} {}", kOver, key),
         .got = "no values, and the file does not sweep the key",
         .expected = kind ? "values: another precision is another arithmetic" : "values",
         .hint = fmt::format("--over '{}=...|...'", key)});
  }
  return mapped(texts, [&](const std::string& text) { return value_of(text, key); });
}

/// A value of `key`, into the document. A plugin keeps the options that it has there.
void choose(ConfigNode& document, const std::string& key, const ConfigNode& value) {
  const ConfigNode* const there = plugin_of_key(key) ? at_path(document, key) : nullptr;
  const bool same = there != nullptr && value.kind == ConfigNode::Kind::scalar &&
                    name_in(*there) == name_in(value);
  if (!same) set_path(document, key, value);
}

/// Documents, each with one value of the key, for each of `documents`.
std::vector<ConfigNode> multiplied(const std::vector<ConfigNode>& documents, const TunedKey& key,
                                   const TunedPlugins& plugins) {
  std::vector<ConfigNode> out;
  const std::optional<PluginKind> kind = plugin_of_option(key.key);
  for (const ConfigNode& document : documents) {
    const ConfigNode* const plugin = kind ? at_path(document, to_string(*kind)) : nullptr;
    if (kind &&
        (plugin == nullptr || !plugins.has_option(*kind, name_in(*plugin), option_of(key.key)))) {
      out.push_back(document);
      continue;
    }
    for (const ConfigNode& value : key.values) choose(out.emplace_back(document), key.key, value);
  }
  return out;
}

/// Options of a plugin are part of its choice.
std::vector<std::string> keys_of_candidates(const std::vector<TunedKey>& keys) {
  std::vector<std::string> out;
  for (const TunedKey& each : keys) {
    const std::optional<PluginKind> kind = plugin_of_option(each.key);
    const std::string key = kind ? to_string(*kind) : each.key;
    if (!contains(out, key)) out.push_back(key);
  }
  return out;
}

}  // namespace

std::vector<TunedKey> parse_over(const std::string& text) {
  std::vector<TunedKey> keys;
  for (const std::string& word : split(text, ',')) {
    TunedKey key = parse_key(word);
    if (key.key.empty()) {
      throw ConfigError({.what = "--over has an empty key",
                         .where = kOver,
                         .got = text,
                         .expected = "keys between commas",
                         .hint = "as in --over 'strategy,train.accumulate=1|2'"});
    }
    if (contains(keys, key.key, &TunedKey::key)) {
      throw ConfigError({.what = "--over has a key twice",
                         .where = kOver,
                         .got = text,
                         .expected = "each key once",
                         .hint = "as in --over 'train.accumulate=1|2'"});
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

void check_tuned(const std::vector<TunedKey>& keys, const std::vector<std::string>& known) {
  for (const auto& [key, values] : keys) {
    if (tunable().contains(key) || plugin_of_option(key)) continue;
    if (contains(known, key)) {
      throw ConfigError({.what = "the key changes what is trained, not only how fast",
                         .where = kOver,
                         .got = key,
                         .expected = all_tunable() + ", options of plugins",
                         .hint = "sweep it: `ddprun FILE.yaml` compares its values"});
    }
    refuse_unknown(key, known);
  }
}

std::vector<TunedKey> with_values(std::vector<TunedKey> keys, const ConfigNode& document,
                                  const TunedPlugins& plugins) {
  for (auto& [key, values] : keys) {
    check_option(key, plugins);
    if (!values.empty()) continue;
    const std::vector<ConfigNode>* const of_sweep = swept(document, key);
    values = of_sweep != nullptr ? *of_sweep : declared(key, plugins);
  }
  return keys;
}

std::string Candidate::label() const {
  std::string out;
  for (const auto& [key, value] : values) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", key, label_of(value));
  }
  return out;
}

std::string Candidate::name() const {
  return list_text(mapped(std::views::values(values), label_of), " + ");
}

std::vector<std::string> Candidate::overrides() const {
  return mapped(
      values, [](const auto& each) { return each.first + "=" + json_text(to_json(each.second)); });
}

std::vector<Candidate> candidates_of(const ConfigNode& document, const std::vector<TunedKey>& keys,
                                     const TunedPlugins& plugins) {
  std::vector<TunedKey> ordered = keys;  // a plugin is chosen before its options
  std::ranges::stable_partition(ordered,
                                [](const TunedKey& each) { return !plugin_of_option(each.key); });
  std::vector<ConfigNode> documents = {document};
  for (const TunedKey& key : ordered) documents = multiplied(documents, key, plugins);
  std::vector<Candidate> out;
  for (const ConfigNode& each : documents) {
    Candidate candidate = candidate_of(each, {}, keys);
    const auto same = [&candidate](const Candidate& other) {
      return other.label() == candidate.label();
    };
    if (std::ranges::none_of(out, same)) out.push_back(std::move(candidate));
  }
  return out;
}

Candidate candidate_of(const ConfigNode& document, const ConfigNode& resolved,
                       const std::vector<TunedKey>& keys) {
  Candidate out;
  for (const std::string& key : keys_of_candidates(keys)) {
    const ConfigNode* value = at_path(document, key);
    if (value == nullptr) value = at_path(resolved, key);
    if (value != nullptr) out.values.emplace_back(key, *value);
  }
  return out;
}

}  // namespace ddprun
