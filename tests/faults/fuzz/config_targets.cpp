// Targets that end in the plan of an experiment: YAML text, YAML trees, and --set.
#include <algorithm>
#include <functional>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "faults/fuzz/target.h"
#include "runner/launch/plan.h"

namespace ddprun::fuzz {

namespace fs = std::filesystem;

namespace {

/// The shipped experiments. Their data lies beside an input, so that no mutated path leads to a
/// folder of the machine.
std::vector<std::string> shipped_experiments(const fs::path& source) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(source / "configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  const std::string installed = "/usr/share/games/fortunes";
  for (const fs::path& file : files) {
    std::string text = read(file);
    if (const auto at = text.find(installed); at != std::string::npos) {
      text.replace(at, installed.size(), "texts");
    }
    texts.push_back(text);
  }
  return texts;
}

/// Ever more of one thing, of which the time must not be a square.
std::string large_piece(Dice& dice) {
  const auto repeat = [](std::size_t times, const std::function<std::string(std::size_t)>& piece) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += piece(i);
    return text;
  };
  const auto number = [](std::size_t i) { return std::to_string(i); };
  switch (dice.below(8)) {
    case 0:
      return repeat(40'000, [&](std::size_t i) { return "k" + number(i) + ": 1\n"; });
    case 1:
      return "strategy:\n" +
             repeat(40'000, [&](std::size_t i) { return "  k" + number(i) + ": 1\n"; });
    case 2:
      return "sweep:\n  train.seed: [" +
             repeat(2'000, [&](std::size_t i) { return number(i) + ", "; }) + "]\n";
    case 3:
      return "sweep:\n" +
             repeat(20'000, [&](std::size_t i) { return "  model.k" + number(i) + ": [1]\n"; });
    case 4:
      return "value: " + std::string(2'000'000, 'v') + "\n";
    case 5:
      return std::string(1'000'000, 'k') + ": 1\n";
    case 6:
      return "deep: " + std::string(100'000, dice.one_in(2) ? '[' : '{');
    default:
      return "a0: &a0 [1]\n" + repeat(60, [&](std::size_t i) {
               return "a" + number(i + 1) + ": &a" + number(i + 1) + " [*a" + number(i) + ", *a" +
                      number(i) + "]\n";
             });
  }
}

class ConfigTarget : public Target {
 public:
  ConfigTarget(const fs::path& source, TargetFacts facts)
      : Target(std::move(facts)), experiments_(shipped_experiments(source)) {}

  std::vector<std::string> replay(const fs::path& file) const override {
    return {"validate", file.string()};
  }

  Verdict run(const std::string& input, const fs::path& scratch) override {
    return plan(input, {}, scratch);
  }

 protected:
  Verdict plan(const std::string& yaml, const std::vector<std::string>& overrides,
               const fs::path& scratch) {
    if (!fs::exists(scratch / "texts")) {
      fs::create_directory(scratch / "texts");
      write(scratch / "texts" / "a.txt", std::string(5000, 'a'));
      write(scratch / "tokens.bin", std::string(5000, '\1'));
    }
    write(scratch / "fuzz.yaml", yaml);
    const PlannedFile planned = plan_file(scratch / "fuzz.yaml", {overrides, {}, {}, 0}, cache_);
    for (const PlannedRun& run : planned.runs) to_yaml(run.resolved);
    return planned.error.empty() ? Verdict::accepted : Verdict::refused;
  }

  std::vector<std::string> experiments_;
  PlanCache cache_;
};

class Yaml final : public ConfigTarget {
 public:
  explicit Yaml(const fs::path& source) : ConfigTarget(source, {"yaml", "fuzz.yaml", 350}) {}
  std::string make(Dice& dice) const override {
    const std::string& good = dice.pick(experiments_);
    if (dice.one_in(500)) return good + large_piece(dice);
    return mutate_text(good, dice.pick(experiments_), dice);
  }
};

class Tree final : public ConfigTarget {
 public:
  explicit Tree(const fs::path& source) : ConfigTarget(source, {"tree", "fuzz.yaml", 200}) {
    for (const std::string& text : experiments_) trees_.push_back(parse_yaml(text, "fuzz.yaml"));
  }
  std::string make(Dice& dice) const override {
    return to_yaml(mutate_tree(dice.pick(trees_), dice));
  }

 private:
  std::vector<ConfigNode> trees_;
};

/// An input is one assignment.
class Set final : public ConfigTarget {
 public:
  explicit Set(const fs::path& source) : ConfigTarget(source, {"set", "assignment", 200}) {
    for (const auto& [section, options] : describe_sections(experiment_kinds())) {
      const std::string prefix = section == "top level" ? "" : section + ".";
      for (const OptionInfo& option : options) keys_.push_back(prefix + option.key);
    }
    keys_.insert(keys_.end(),
                 {"sweep.train.steps", "sweep", "strategy.bucket_mb", "strategy.path"});
  }
  std::string make(Dice& dice) const override {
    const std::string text = dice.pick(keys_) + "=" + troublesome_value(dice);
    return dice.one_in(2) ? text : mutate_text(text, dice.pick(keys_), dice);
  }
  Verdict run(const std::string& input, const fs::path& scratch) override {
    std::vector<std::string> assignments = kPoint;
    assignments.push_back(input);
    return plan(read(kExperiment), assignments, scratch);
  }
  std::vector<std::string> replay(const fs::path& file) const override {
    std::vector<std::string> arguments = {"validate", kExperiment};
    for (const std::string& each : kPoint) arguments.insert(arguments.end(), {"--set", each});
    arguments.insert(arguments.end(), {"--set", read(file)});
    return arguments;
  }

 private:
  static constexpr const char* kExperiment = DDPRUN_SOURCE_DIR "/configs/attention/context.yaml";
  /// Of its sweep: a model of 4,096 layers takes seconds to plan.
  inline static const std::vector<std::string> kPoint = {"sweep={}", "attention=flash"};
  std::vector<std::string> keys_;
};

}  // namespace

std::unique_ptr<Target> yaml_target(const fs::path& source) {
  return std::make_unique<Yaml>(source);
}
std::unique_ptr<Target> tree_target(const fs::path& source) {
  return std::make_unique<Tree>(source);
}
std::unique_ptr<Target> set_target(const fs::path& source) { return std::make_unique<Set>(source); }

}  // namespace ddprun::fuzz
