// Scripts with which shells complete what is typed after `ddprun`. They hold all words: this
// program would keep a key press waiting for a quarter of a second, in which LibTorch is loaded.
#pragma once

#include <string>
#include <vector>

#include "ddprun/config/registry.h"
#include "runner/command/request.h"

namespace ddprun {

struct CompletedWord {
  std::string word;  ///< without spaces
  std::string help;
};

/// An option of a command, or the argument that it takes without one.
struct CompletedOption {
  std::string name;  ///< "--set"; empty: an argument
  std::string help;
  /// What its value is called: one of kFileValue ... kNameValue, "csv|json" for the values
  /// themselves, or what nobody can complete. Empty: it has none.
  std::string value;
};
inline constexpr const char* kFileValue = "FILE|FOLDER";         ///< YAML, and folders
inline constexpr const char* kFolderValue = "DIR";               ///< folders
inline constexpr const char* kOverrideValue = "KEY.PATH=VALUE";  ///< CompletionWords::overrides
inline constexpr const char* kNameValue = "NAME";                ///< CompletionWords::names

struct CompletedCommand {
  CompletedWord name;
  std::vector<CompletedOption> options;
};

struct CompletionWords {
  std::vector<CompletedCommand> commands;  ///< "run" among them, which is the one of no name
  std::vector<CompletedWord> names;        ///< sections, and plugins
  /// "train.steps="; and where values have names, these: "strategy=flat".
  std::vector<CompletedWord> overrides;
};

/// What sections and plugins declare: `names` and `overrides`.
CompletionWords declared_words(const PluginRegistry& registry);

/// The script for the shell. Options of one name take the same in all commands.
std::string completion_script(Shell shell, const CompletionWords& words);

}  // namespace ddprun
