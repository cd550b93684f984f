// Completion in the shells themselves: what each offers is what the program declares.
#include <set>

#include "support/ddprun_command.h"
#include "support/matches.h"

namespace ddprun::test {
namespace {

using WordSet = std::set<std::string>;

/// A shell, and a program of it that prints what the script offers for the line $2.
struct ShellUnderTest {
  std::string name;
  std::string driver;
};
const ShellUnderTest kShells[] = {
    {"bash",
     "compopt() { :; }\n"
     "source ./script\n"
     "COMP_LINE=$2 COMP_POINT=${#2}\n"
     "_ddprun\n"
     "printf '%s\\n' \"${COMPREPLY[@]}\"\n"},
    // The functions of the completion system print what they are given.
    {"zsh",
     "compdef() { :; }\n"
     "_describe() { local each; for each in \"${(@P)2}\"; do print -r -- ${each%%:*}; done; }\n"
     "_files() { print -rl -- *.(yaml|yml)(N); }\n"
     "source ./script\n"
     "words=(${=2})\n"
     "if [[ $2 == *' ' ]]; then words+=(''); fi\n"
     "CURRENT=$#words PREFIX=$words[-1]\n"
     "_ddprun\n"},
    {"fish",
     "source ./script\n"
     "complete -C \"$argv[2]\" | string replace -r '\\t.*' ''\n"
     "true\n"}};

void PrintTo(const ShellUnderTest& shell, std::ostream* out) { *out << shell.name; }

class Completion : public testing::TestWithParam<ShellUnderTest> {
 protected:
  void SetUp() override {
    if (std::system(("command -v " + GetParam().name + " >/dev/null").c_str()) != 0) {
      GTEST_SKIP() << "there is no " << GetParam().name << " (Debian: " << GetParam().name << ")";
    }
    folder_.write("script", run_ddprun(folder_, {"completion", GetParam().name}).out);
    folder_.write("driver", GetParam().driver);
    folder_.write("mine.yaml", "");
  }

  /// What is offered for the last word of the line, and begins as it does.
  WordSet offered(const std::string& line) const {
    const std::map<std::string, std::vector<std::string>> plain = {
        {"bash", {"--norc"}}, {"zsh", {"-f"}}, {"fish", {"--no-config"}}};
    std::vector<std::string> shell = {"/usr/bin/env", "HOME=.", "PATH=/usr/bin:/bin",
                                      GetParam().name};
    for (const std::string& option : plain.at(GetParam().name)) shell.push_back(option);
    shell.push_back("driver");
    const CommandResult run = must_run(folder_, {line}, shell);
    EXPECT_EQ(run.err, "");
    const std::string last = line.substr(line.rfind(' ') + 1);
    const bool of_value = last.find('=') != std::string::npos && GetParam().name == "bash";
    WordSet words;
    for (std::string word : lines_of(run.out)) {
      if (word.empty()) continue;
      if (of_value) word = last.substr(0, last.find('=') + 1) + word;  // readline keeps the key
      if (word.starts_with(last)) words.insert(word);
    }
    return words;
  }

  TemporaryFolder folder_;
};

/// The long options that the help of a command shows, or that of none.
WordSet options_in_help(const TemporaryFolder& folder, const std::string& command) {
  const std::string help = run_ddprun(folder, {command, "--help"}).out;
  const auto found = groups_of(help, R"(\n +(?:-\w,)?(--[a-z-]+))");
  return {found.begin(), found.end()};
}

TEST_P(Completion, OffersCommandsAndFilesFirst) {
  EXPECT_THAT(offered("ddprun "), IsSupersetOf({"quickstart", "run", "validate", "list", "describe",
                                                "verify", "doctor", "completion", "mine.yaml"}));
  EXPECT_THAT(offered("ddprun q"), ElementsAre("quickstart"));
  EXPECT_THAT(offered("ddprun --vers"), ElementsAre("--version"));
  EXPECT_THAT(offered("ddprun validate m"), ElementsAre("mine.yaml"));
  EXPECT_THAT(offered("ddprun doctor "), Not(Contains("mine.yaml")));
}

TEST_P(Completion, OffersTheOptionsOfEachCommand) {
  for (const char* command : {"quickstart", "run", "validate", "data", "list", "describe", "new",
                              "schema", "verify", "doctor", "completion"}) {
    const WordSet options = options_in_help(folder_, command);
    EXPECT_GE(options.size(), 3u) << command;
    EXPECT_EQ(offered("ddprun " + std::string(command) + " --"), options) << command;
  }
  EXPECT_THAT(offered("ddprun mine.yaml --"), Contains("--resume"));
}

TEST_P(Completion, OffersEverythingThatCanBeDescribed) {
  std::istringstream list(run_ddprun(folder_, {"list"}).out);
  std::string line, kind, name;
  std::getline(list, line);
  WordSet plugins;
  while (list >> kind >> name && std::getline(list, line)) plugins.insert(name);
  EXPECT_GE(plugins.size(), 20u);
  EXPECT_THAT(offered("ddprun describe "), IsSupersetOf(plugins));
  EXPECT_THAT(offered("ddprun describe "), Contains("train"));
  EXPECT_THAT(offered("ddprun describe buck"), ElementsAre("bucketed"));
}

TEST_P(Completion, OffersKeysAndThenTheirValues) {
  WordSet keys;
  for (const std::string& line : lines_of(run_ddprun(folder_, {"describe", "train"}).out)) {
    if (line.starts_with("    ") || line.find("default") == std::string::npos) continue;
    const std::string key = line.substr(0, line.find(' '));
    if (key != "key") keys.insert("train." + key + "=");
  }
  const WordSet offered_keys = offered("ddprun mine.yaml --set train.");
  EXPECT_THAT(offered_keys, IsSupersetOf(keys));
  EXPECT_THAT(offered_keys, AllOf(Contains("train.steps="), Each(EndsWith("="))));
  EXPECT_THAT(offered("ddprun quickstart --set world.backend=g"),
              ElementsAre("world.backend=gloo"));
  EXPECT_THAT(offered("ddprun --set strategy="),
              AllOf(Contains("strategy=flat"), Not(Contains("strategy="))));
}

TEST_P(Completion, OffersTheValuesOfOptions) {
  EXPECT_THAT(offered("ddprun mine.yaml --format "),
              ElementsAre("csv", "json", "markdown", "table"));
  EXPECT_THAT(offered("ddprun completion "), ElementsAre("bash", "fish", "zsh"));
  EXPECT_THAT(offered("ddprun new "), ElementsAre("attention", "precision", "strategy"));
  EXPECT_THAT(offered("ddprun checkpoint ver"), ElementsAre("verify"));
  EXPECT_THAT(offered("ddprun mine.yaml --columns "), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Shells, Completion, testing::ValuesIn(kShells),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace ddprun::test
