// Visitors of declared options: they read options strictly from YAML, write their values, and list
// them.
//
// Family: options_io.cpp options_list.cpp
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddprun/base/options.h"
#include "ddprun/config/config_node.h"

namespace ddprun {

/// Runs `declare` with a visitor that sets each declared option from `node` (null or a mapping) and
/// then refuses what is left. `ignore` are keys that someone else reads (a plugin's "name" and
/// "path"). Messages call the node by its dotted path `where` ("strategy"). Throws ConfigError for
/// an unknown key (with the nearest declared one and all of them), a wrong type, or a value out of
/// limits; each with origin, got and expected.
void read_options(const ConfigNode& node, const std::string& where,
                  const std::function<void(Options&)>& declare,
                  const std::vector<std::string>& ignore = {});

/// The section of a document, read like this; its defaults where there is none.
template <class Config>
Config read_section(const ConfigNode& document, const std::string& key) {
  Config config;
  const ConfigNode* const section = document.find(key);
  if (section == nullptr) return config;
  read_options(*section, key, [&config](Options& options) { declare_options(options, config); });
  return config;
}

/// The current values of all declared options, as a mapping.
ConfigNode write_options(const std::function<void(Options&)>& declare);

/// A text as a value of YAML: quoted where it would be taken for something else.
ConfigNode text_node(const std::string& text);

/// One declared option with its default, flattened: nested keys are dotted ("clip.norm").
struct OptionInfo {
  std::string key;
  std::string type;  ///< "integer", "number", "text", "true or false", "list of numbers", ...
  std::string default_value;  ///< as YAML text
  std::string allowed;        ///< ">= 0.001", "1 to 64", "constant, cosine"; empty: any
  std::string help;

  bool operator==(const OptionInfo&) const = default;
};
std::vector<OptionInfo> list_options(const std::function<void(Options&)>& declare);

/// The candidate nearest to `name`, or empty. The edit distance, in which a transposition counts
/// one, is at most a third of the longer text.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

/// A hint: "did you mean 'steps'?", for the nearest candidate; `otherwise` if there is none.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& otherwise);

}  // namespace ddprun
