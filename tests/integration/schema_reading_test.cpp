// The JSON Schema and the program's own reading agree on keys, types, limits and names: on every
// file that comes with ddprun, and on thousands with a mistake in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ddprun/base/error.h"
#include "ddprun/config/config_node.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/config/schema/experiment_schema.h"
#include "ddprun/experiments/kinds.h"
#include "support/experiments.h"
#include "support/json_schema.h"
#include "support/mutants.h"
#include "support/temporary_folder.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_files() {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(DDPRUN_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// What errors of keys, types, limits and names say; the rest are errors of meaning.
constexpr const char* kErrorsOfForm[] = {"unknown key ",
                                         " has the wrong type",
                                         " is out of range",
                                         " must be a mapping",
                                         " cannot be '",
                                         "unknown strategy ",
                                         "unknown precision ",
                                         "unknown attention ",
                                         "strategy is missing",
                                         "precision is missing",
                                         "attention is missing",
                                         " has no name",
                                         " has no `",
                                         " needs the section ",
                                         " must be given a list of values"};

enum class Verdict { accepted, form, meaning };

Verdict verdict_of(const ErrorText& error) {
  const bool form = std::ranges::any_of(kErrorsOfForm, [&error](const char* part) {
    return error.what.find(part) != std::string::npos;
  });
  return form ? Verdict::form : Verdict::meaning;
}

class SchemaReading : public testing::Test {
 protected:
  /// What `ddprun validate` reads before it asks what the experiment means for this machine.
  Verdict read(const fs::path& file) {
    try {
      const ExperimentFile read = load_experiments(file, {}, experiment_kinds());
      for (const Experiment& experiment : read.experiments) {
        for (const PluginChoice& choice : experiment.plugins) make_plugin(registry_, choice);
      }
    } catch (const Error& error) {
      said_ = error.what();
      return verdict_of(error.text());
    }
    said_ = "valid";
    return Verdict::accepted;
  }

  Verdict read(const ConfigNode& document) {
    const fs::path file = folder_.path() / "mutant.yaml";
    fs::remove(file);  // some file systems wait for the disk when a file is written over
    folder_.write(file.filename(), to_yaml(document) + "\n");
    return read(file);
  }

  const PluginRegistry registry_{{test::plugin_folder()}};
  test::JsonSchema schema_{experiment_schema(experiment_kinds(), registry_)};
  test::TemporaryFolder folder_;
  std::string said_;  // by the last read()
};

TEST_F(SchemaReading, EveryShippedConfigurationIsAccepted) {
  for (const fs::path& file : shipped_files()) {
    EXPECT_EQ(schema_.refusal(to_json(read_yaml(file))), "") << file;
  }
}

/// What a document without the least would be refused for.
const std::string kWithoutStrategy = "precision: fp32\nattention: sdpa\ntrain: {global_batch: 8}\n";
const std::string kStrategy = kWithoutStrategy + "strategy: bucketed\n";
const std::string kCollectives = "experiment: collectives\nworld: {backend: gloo}\n";

struct Case {
  std::string text;
  bool right;  ///< keys, types, limits and names
};

TEST_F(SchemaReading, SchemaAndReadingAgreeOnWhatIsSubtle) {
  const std::vector<Case> cases = {
      {kWithoutStrategy, false},
      {kWithoutStrategy + "sweep: {strategy: [flat, bucketed]}", true},
      {kWithoutStrategy + "sweep: {strategy.name: [flat, bucketed]}", true},
      {kWithoutStrategy + "strategy: {bucket_mb: 2}\nsweep: {strategy.name: [bucketed]}", true},
      {kWithoutStrategy + "sweep: {strategy: [flat, {name: bucketed, bucket_mb: 2}]}", true},
      {kWithoutStrategy + "sweep: {strategy: [flat, {name: flat, bucket_mb: 2}]}", false},
      {kWithoutStrategy + "sweep: {strategy: [bucketed], strategy.bucket_mb: [2, 3]}", true},
      {kWithoutStrategy + "sweep: {strategy: [bucketed, flat], strategy.bucket_mb: [2, 3]}", false},
      {kStrategy + "sweep: {strategy.bucket_mb: [2, 3.5]}", true},
      {kStrategy + "sweep: {strategy.bucket_mb: {from: 1, to: 8}}", true},
      {kStrategy + "sweep: {strategy.bucket_mb: [none]}", false},
      {kStrategy + "sweep: {strategy.chunks: [2]}", false},
      {kStrategy + "sweep: {train.steps: {from: 1, to: 8, factor: 2}}", true},
      {kStrategy + "sweep: {train.steps: {to: 8}}", false},
      {kStrategy + "sweep: {train.steps: {from: 1, by: 8}}", false},
      {kStrategy + "sweep: {train.steps: {from: 0, to: 8}}", false},
      {kStrategy + "sweep: {train.steps: {from: 1, to: 2e15}}", false},
      {kStrategy + "sweep: {experiment: [1]}", false},
      {kStrategy + "sweep: {train.steps: 8}", false},
      {kStrategy + "sweep: {train.steps: [8, words]}", false},
      {kStrategy + "sweep: {data.source: {from: 1, to: 2}}", false},
      {kStrategy + "sweep: {train.eval.every: [0], train.eval: [{every: 0}]}", true},
      {kStrategy + "sweep: {optimizer.groups: [[], [{match: a}], {match: b}]}", true},
      {kStrategy + "sweep: {optimizer.groups: [[null]]}", false},
      {kStrategy + "sweep: {train.stepps: [8]}", false},
      {kStrategy + "sweep: {model.recompute: [none, {groups: 2}]}", true},
      {kStrategy + "sweep: {model.recompute: [none, {}]}", false},
      {kStrategy + "sweep: {model: [{layers: 2}, {preset: small}]}", true},
      {kStrategy + "sweep: {name: [one]}", true},
      {kStrategy + "sweep: {}", true},
      {kStrategy + "sweep:", false},
      {kStrategy + "report:", true},
      {kStrategy + "report: {}", true},
      {kStrategy + "report: {baseline: {}}", true},
      {kStrategy + "report: {baseline: [1]}", false},
      {kStrategy + "report: {pivot: }", true},
      {kStrategy + "model:\ndata:\noptimizer: {schedule: }", true},
      {kStrategy + "model: {frozen: head, recompute: {every: 1}}", true},
      {kStrategy + "optimizer: {betas: 0.9, groups: {match: '*'}}", true},
      {kStrategy + "optimizer: {betas: [0.9, 1.5]}", false},
      {kStrategy + "name: 5", false},
      {kStrategy + "name: '5'", true},
      {kStrategy + "collectives: {}", false},
      {kStrategy + "experiment: training", true},
      {kStrategy + "experiment: trainning", false},
      {kCollectives, false},
      {kCollectives + "collectives: {}", true},
      {kCollectives + "collectives:", true},
      {kCollectives + "sweep: {collectives.bytes: {from: 8, to: 64}}", true},
      {kCollectives + "sweep: {collectives: [{bytes: 8}]}", true},
      {kCollectives + "collectives: {}\nstrategy: flat", false},
      {kCollectives + "collectives: {}\nplugin_path: [a]", false},
      {"collectives: {}\nworld: {backend: gloo}\nsweep: {experiment: [collectives]}", true},
      {kWithoutStrategy + "strategy: {name: mine}", false},
      {kWithoutStrategy + "strategy: {name: mine, path: ''}", false},
      {kWithoutStrategy + "strategy: [flat]", false},
      {kWithoutStrategy + "strategy:", false},
      {kWithoutStrategy + "strategy: {bucket_mb: 5}", false},
  };
  for (const Case& each : cases) {
    const ConfigNode document = parse_yaml(each.text, "case");
    EXPECT_EQ(schema_.accepts(to_json(document)), each.right) << each.text << "\n"
                                                              << schema_.refusal(to_json(document));
    EXPECT_EQ(read(document) != Verdict::form, each.right) << each.text << "\n" << said_;
  }
}

TEST_F(SchemaReading, APluginOfAnotherLibraryMayHaveAnyOptions) {
  for (const char* rest :
       {"strategy: {name: mine, path: ./libmine.so, chunks: 3}", "strategy: mine\nplugin_path: a",
        "strategy: {name: mine, chunks: 3}\nplugin_path: [a]\nsweep: {strategy.chunks: [1]}",
        "sweep: {strategy: [mine], plugin_path: [[a]]}"}) {
    EXPECT_EQ(schema_.refusal(to_json(parse_yaml(kWithoutStrategy + rest, "case"))), "") << rest;
  }
}

/// Whether a sweep gives all of its points another value where the change is: nobody reads it.
bool is_replaced(const test::Mutant& mutant) {
  const ConfigNode* sweep = mutant.document.find("sweep");
  if (sweep == nullptr) return false;
  const auto is_swept = [sweep](const std::string& path) {
    return std::ranges::any_of(sweep->map, [&path](const auto& pair) {
      return path == pair.first || path.starts_with(pair.first + ".");
    });
  };
  return is_swept(mutant.path) || is_swept(mutant.new_path);
}

/// Whether the path is of where a range ends, whose values the schema does not know.
bool is_end_of_range(const std::string& path) {
  return path.starts_with("sweep.") && (path.ends_with(".to") || path.ends_with(".factor"));
}

TEST_F(SchemaReading, SchemaAndReadingAgreeOnFiveThousand) {
  std::vector<ConfigNode> documents;
  for (const fs::path& file : shipped_files()) documents.push_back(read_yaml(file));
  test::Mutator mutator(1, documents);
  std::map<Verdict, int> verdicts;
  for (int i = 0; i < 5000; ++i) {
    const test::Mutant mutant = mutator.draw();
    if (is_replaced(mutant)) continue;
    const Verdict verdict = read(mutant.document);
    ++verdicts[verdict];
    if (verdict == Verdict::meaning) continue;
    if (is_end_of_range(mutant.path) && said_.find(" is out of range") != std::string::npos)
      continue;
    const nlohmann::json json = to_json(mutant.document);
    EXPECT_EQ(schema_.accepts(json), verdict == Verdict::accepted)
        << "mutant " << i << ": " << mutant.change << "\n"
        << to_yaml(mutant.document) << "\nddprun: " << said_
        << "\nschema: " << schema_.refusal(json);
  }
  // Enough of each to mean something.
  EXPECT_GT(verdicts[Verdict::accepted], 500);
  EXPECT_GT(verdicts[Verdict::form], 2000);
  RecordProperty("accepted", verdicts[Verdict::accepted]);
  RecordProperty("form", verdicts[Verdict::form]);
  RecordProperty("meaning", verdicts[Verdict::meaning]);
}

}  // namespace
}  // namespace ddprun
