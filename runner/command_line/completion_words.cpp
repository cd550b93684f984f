// Words of sections and plugins, from their declarations.

#include <memory>
#include <set>
#include <sstream>

#include "ddprun/config/experiment.h"
#include "ddprun/config/options_io.h"
#include "ddprun/experiments/kinds.h"
#include "runner/command_line/completion.h"

namespace ddprun {

namespace {

/// The names that a value may have; empty: it is a number, or any text.
std::vector<std::string> named_values(const OptionInfo& option) {
  if (option.type == "true or false") return {"true", "false"};
  if (option.type != "text") return {};
  std::vector<std::string> values;
  std::istringstream names(option.allowed);
  for (std::string name; std::getline(names >> std::ws, name, ',');) values.push_back(name);
  return values;
}

class Overrides {
 public:
  void add(const std::string& key, const OptionInfo& option) {
    add(key + "=", option.help);
    for (const std::string& value : named_values(option)) add(key + "=" + value, option.help);
  }
  /// The first of a name stays: plugins may have an option in common.
  void add(const std::string& word, const std::string& help) {
    if (known_.insert(word).second) words_.push_back({word, help});
  }
  std::vector<CompletedWord> take() { return std::move(words_); }

 private:
  std::set<std::string> known_;
  std::vector<CompletedWord> words_;
};

}  // namespace

CompletionWords declared_words(const PluginRegistry& registry) {
  CompletionWords words;
  Overrides overrides;
  for (const auto& [section, options] : describe_sections(experiment_kinds())) {
    const bool is_section = section.find(' ') == std::string::npos;  // and not "top level"
    if (is_section) words.names.push_back({section, "section of an experiment"});
    for (const OptionInfo& option : options) {
      overrides.add((is_section ? section + "." : "") + option.key, option);
    }
  }
  for (const PluginInfo& info : registry.list()) {
    const std::string kind = to_string(info.kind);
    words.names.push_back({info.name, kind + ": " + info.summary});
    overrides.add(kind + "=" + info.name, info.summary);
    const std::shared_ptr<Plugin> plugin = registry.create(info.kind, info.name);
    for (const OptionInfo& option :
         list_options([&](Options& options) { plugin->declare_options(options); })) {
      overrides.add(kind + "." + option.key, option);
    }
  }
  words.overrides = overrides.take();
  return words;
}

}  // namespace ddprun
