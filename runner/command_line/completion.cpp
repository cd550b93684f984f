// The scripts. What bash and zsh choose from is written alike for both; how they offer it is each
// one's own. Of fish every word is a rule.
#include "runner/command_line/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/algorithm/string/replace.hpp>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/options_io.h"
#include "ddprun/experiments/kinds.h"

namespace ddprun {

namespace {

constexpr const char* kDefaultCommand = "run";

/// A text of any characters as one word of the shell.
std::string quoted(Shell shell, std::string text) {
  if (shell == Shell::fish) {
    boost::replace_all(text, "\\", "\\\\");
    boost::replace_all(text, "'", "\\'");
  } else {
    boost::replace_all(text, "'", "'\\''");
  }
  return "'" + text + "'";
}

/// The values that a name such as "csv|json" lists; empty: it lists none.
std::vector<CompletedWord> listed_values(const std::string& value) {
  if (value.find('|') == std::string::npos || value == kFileValue) return {};
  return mapped(split_at(value, '|'), [](const std::string& name) {
    return CompletedWord{name, ""};
  });
}

/// What is chosen from for a value; empty: files, folders, or what nobody knows.
std::vector<CompletedWord> choices(const CompletionWords& words, const std::string& value) {
  if (value == kOverrideValue) return words.overrides;
  if (value == kNameValue) return words.names;
  return listed_values(value);
}

// ---------------------------------------------------------------- bash and zsh

/// An array of both: ('word:what it means' ...).
std::string array_of(const std::vector<CompletedWord>& words) {
  std::string out = "(";
  for (const CompletedWord& word : words) {
    out += "\n      " + quoted(Shell::bash, word.word + ":" + word.help);
  }
  return out + ")";
}

/// One branch of the choice by command: what it takes as an argument, and its options.
std::string branch_of(const CompletedCommand& command, const std::string& pattern) {
  std::vector<CompletedWord> options;
  std::vector<std::string> arguments;
  for (const CompletedOption& option : command.options) {
    if (option.name.empty()) {
      arguments.push_back(option.value);
    } else {
      options.push_back({option.name, option.help});
    }
  }
  std::string value = quoted(Shell::bash, arguments.empty() ? "none" : arguments.back());
  // Of two arguments the first is behind the command.
  if (arguments.size() > 1 && !listed_values(arguments.front()).empty()) {
    value +=
        "; if [[ $previous == \"$first\" ]]; then value=" + quoted(Shell::bash, arguments.front()) +
        "; fi";
  }
  return fmt::format("    {}) value={}; option_words={} ;;\n", pattern, value, array_of(options));
}

/// Sets `value`, what is completed, and `found`, the words for it, from $first (the word after
/// ddprun, if it is whole), $previous and $word.
std::string choice_of_words(const CompletionWords& words) {
  std::vector<CompletedWord> commands;
  std::map<std::string, std::string> values;  // of options
  std::set<std::string> listed;               // values that are chosen from words
  std::string by_command, by_default;
  for (const CompletedCommand& command : words.commands) {
    commands.push_back(command.name);
    if (command.name.word == kDefaultCommand) {
      by_default = branch_of(command, "*");
    } else {
      by_command += branch_of(command, command.name.word);
    }
    for (const CompletedOption& option : command.options) {
      if (!choices(words, option.value).empty()) listed.insert(option.value);
      if (!option.name.empty() && !option.value.empty()) values[option.name] = option.value;
    }
  }
  std::string out = "  command_words=" + array_of(commands) + "\n  case $first in\n" + by_command +
                    by_default + "  esac\n  case $previous in\n";
  for (const auto& [option, value] : values) {
    out += fmt::format("    {}) value={} ;;\n", option, quoted(Shell::bash, value));
  }
  out += "    *) if [[ $word == -* ]]; then value=options; fi ;;\n  esac\n  case $value in\n";
  out += "    options) found=(\"${option_words[@]}\") ;;\n";
  for (const std::string& value : listed) {
    out += fmt::format("    {}) found={} ;;\n", quoted(Shell::bash, value),
                       array_of(choices(words, value)));
  }
  return out +
         "  esac\n"
         "  if [[ -z $first && ( $value == 'FILE|FOLDER' || $value == options ) ]]; then\n"
         "    found+=(\"${command_words[@]}\")\n"
         "  fi\n";
}

constexpr const char* kBash =
    R"(# Completion of ddprun in bash, as `ddprun completion bash` prints it.
_ddprun() {
  local line=${COMP_LINE:0:COMP_POINT} word='' first='' previous value wordbreak candidate IFS=$' \t\n'
  local -a typed command_words option_words found
  read -ra typed <<<"$line"
  if [[ $line == *[![:space:]] ]]; then word=${typed[-1]}; unset 'typed[-1]'; fi
  previous=${typed[-1]} first=${typed[1]-}
@WORDS@
  COMPREPLY=()
  case $value in
    'FILE|FOLDER')
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -X '!*.yaml' -- "$word"; compgen -f -X '!*.yml' -- "$word"; compgen -d -- "$word") ;;
    DIR)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
  esac
  # Readline takes what stands behind `=` for a word of its own. Values are offered when their key is there.
  wordbreak=
  if [[ $COMP_WORDBREAKS == *=* ]]; then wordbreak=${word%"${word##*=}"}; fi
  for candidate in "${found[@]%%:*}"; do
    if [[ $candidate != "$word"* ]]; then continue; fi
    if [[ $word == *=* && $candidate != *=?* || $word != *=* && $candidate == *=?* ]]; then continue; fi
    COMPREPLY+=("${candidate#"$wordbreak"}")
    if [[ $candidate == *= ]]; then compopt -o nospace; fi
  done
}
complete -F _ddprun ddprun
)";

constexpr const char* kZsh = R"(#compdef ddprun
# Completion of ddprun in zsh, as `ddprun completion zsh` prints it.
_ddprun() {
  local word=$PREFIX first='' previous=${words[CURRENT-1]} value candidate
  local -a command_words option_words found offered
  if (( CURRENT > 2 )); then first=${words[2]}; fi
@WORDS@
  case $value in
    'FILE|FOLDER') _files -g '*.(yaml|yml)' ;;
    DIR) _files -/ ;;
  esac
  # Values are offered when their key is there.
  for candidate in "${found[@]}"; do
    if [[ $word == *=* && ${candidate%%:*} != *=?* || $word != *=* && ${candidate%%:*} == *=?* ]]; then continue; fi
    offered+=("$candidate")
  done
  if (( ! $#offered )); then return; fi
  if [[ $value == 'KEY.PATH=VALUE' && $word != *=* ]]; then
    _describe key offered -S ''
  else
    _describe word offered
  fi
}
if [[ $funcstack[1] == _ddprun ]]; then _ddprun "$@"; else compdef _ddprun ddprun; fi
)";

// ---------------------------------------------------------------- fish

std::string fish_rule(const std::string& condition, const std::string& what,
                      const std::string& help) {
  return fmt::format("complete -c ddprun -n {} {}{}\n", quoted(Shell::fish, condition), what,
                     help.empty() ? "" : " -d " + quoted(Shell::fish, help));
}

/// What fish asks for the words of a value, as the end of a rule.
std::string fish_value(const std::string& value) {
  if (value == kFileValue) return " -k -a '(__fish_complete_suffix .yaml)'";
  if (value == kFolderValue) return " -a '(__fish_complete_directories)'";
  if (value == kOverrideValue) return " -a '(__ddprun_overrides)'";
  if (value == kNameValue) return " -a '(__ddprun_names)'";
  const auto words = mapped(listed_values(value), &CompletedWord::word);
  return words.empty() ? "" : fmt::format(" -a '{}'", fmt::join(words, " "));
}

std::string fish_function(const std::string& name, const std::vector<CompletedWord>& words) {
  std::string out = "function " + name + "\n  printf '%s\\t%s\\n'";
  for (const CompletedWord& word : words) {
    out += " \\\n    " + quoted(Shell::fish, word.word) + " " + quoted(Shell::fish, word.help);
  }
  return out + "\nend\n";
}

constexpr const char* kFishOverrides = R"(# Values are offered when their key is there.
function __ddprun_overrides
  set -l word (commandline -ct)
  if string match -q '*=*' -- "$word"
    __ddprun_keys_and_values | string match -r '^[^=]*=[^\t].*'
  else
    __ddprun_keys_and_values | string match -r '^[^=]*=\t.*'
  end
end
complete -c ddprun -f
)";

std::string fish_script(const CompletionWords& words) {
  std::string out = "# Completion of ddprun in fish, as `ddprun completion fish` prints it.\n";
  out += fish_function("__ddprun_names", words.names);
  out += fish_function("__ddprun_keys_and_values", words.overrides) + kFishOverrides;
  std::vector<std::string> others;
  for (const CompletedCommand& command : words.commands) {
    if (command.name.word != kDefaultCommand) others.push_back(command.name.word);
  }
  const std::string seen = "__fish_seen_subcommand_from ";
  for (const CompletedCommand& command : words.commands) {
    out += fish_rule("__fish_use_subcommand", "-a " + command.name.word, command.name.help);
    const std::string here = command.name.word == kDefaultCommand
                                 ? fmt::format("not {}{}", seen, fmt::join(others, " "))
                                 : seen + command.name.word;
    for (const CompletedOption& option : command.options) {
      const std::string name = option.name.empty() ? "" : "-l " + option.name.substr(2);
      const std::string value = fish_value(option.value);
      if (name.empty() && value.empty()) continue;
      out += fish_rule(here, name + (name.empty() || option.value.empty() ? "" : " -x") + value,
                       name.empty() ? "" : option.help);
    }
  }
  return out;
}

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

std::string completion_script(Shell shell, const CompletionWords& words) {
  if (shell == Shell::fish) return fish_script(words);
  return boost::replace_first_copy(std::string(shell == Shell::bash ? kBash : kZsh), "@WORDS@\n",
                                   choice_of_words(words));
}

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
