// Plugins with one fault each: the run itself or `ddprun verify` must catch it, in a sentence that
// names what is known. docs/planted_faults.md has which check caught which.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "ddprun/measure/environment.h"
#include "integration/planted_faults.h"
#include "support/ddprun_command.h"
#include "support/page_tables.h"

namespace ddprun::test {
namespace {

class PlantedFault : public testing::TestWithParam<Planted> {
 protected:
  /// `ddprun COMMAND` on two ranks with the plugin that has the fault.
  CommandResult ddprun(const std::string& command, Words set) {
    // Widths that are no multiple of 16 leave padding in the buffers.
    folder_.write("one.yaml",
                  "model: {vocab_size: 256, context_length: 16, d_model: 28, d_ff: 60, layers: 1, "
                  "heads: 2}\n"
                  "data: {source: random}\n"
                  "world: {size: 2}\n"
                  "strategy: {name: planted}\n"
                  "precision: fp32\n"
                  "attention: eager\n"
                  "optimizer: {name: adamw, lr: 0.001}\n"
                  "train: {batch_per_rank: 2, warmup_steps: " +
                      std::to_string(kWarmup) + ", steps: " + std::to_string(kSteps - kWarmup) +
                      ", proof_seed: " + std::to_string(proof_seed()) + "}\n");
    std::string text;  // whose documents end within each sequence
    for (int i = 0; i < 20; ++i) text += "one\ntwo\nthree four\nfive\n";
    folder_.write("text.txt", text);
    Words words = {command, "one.yaml", "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/planted"};
    return run_ddprun(folder_, with_sets(words, set), GetParam().launcher);
  }

  const TemporaryFolder folder_;
};

const char* const kPage = DDPRUN_SOURCE_DIR "/docs/planted_faults.md";
const char* const kMarker = "<!-- faults -->\n";

/// What caught a fault in the row of a result: checks, or an error.
std::set<std::string> catchers(const json& row) {
  std::set<std::string> caught;
  if (row.contains("proof")) {
    for (const auto& check : row.at("proof").at("checks")) {
      if (check.at("status") == "failed") caught.insert(check.at("name"));
    }
  }
  if (!caught.empty() || row.at("status") == "ok") return caught;
  const std::string reason = row.at("reason");
  // Nothing was timed: the reason begins with the check that failed before step 0.
  const bool proof = row.at("status") == "proof failed";
  return {proof ? reason.substr(0, reason.find(": ")) : "error"};
}

/// By the name of a fault, what catches it: "`parameters_equal`, `compute_copy`".
using CaughtBy = std::map<std::string, std::string>;

/// As the page's table has it.
CaughtBy caught_on_page() {
  CaughtBy out;
  for (const std::string& line : lines_of(read_file(kPage))) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    std::istringstream faults(cells[1]);
    for (std::string fault; faults >> fault;) {
      if (fault.ends_with(',')) fault.pop_back();
      out[fault] = cells[0];
    }
  }
  return out;
}

void append(const std::string& name, std::string& list) {
  list += (list.empty() ? "" : ", ") + name;
}

std::string table_of(const CaughtBy& caught) {
  std::map<std::string, std::string> faults;  // by what catches them
  for (const auto& [fault, by] : caught) append(fault, faults[by]);
  std::string table = "| caught by | faults |\n|---|---|\n";
  for (const auto& [by, names] : faults) table += "| " + by + " | " + names + " |\n";
  return table;
}

TEST_P(PlantedFault, IsCaught) {
  const Planted& planted = GetParam();
  const bool any_seed = std::getenv("DDPRUN_PROOF_SEED") != nullptr;
  if (any_seed && planted.caught != Caught::by_run) GTEST_SKIP() << "with one seed alone";
  if (planted.name == "more_cores" && usable_cores().size() == 1) {
    GTEST_SKIP()
        << "this machine has one core, and a rank computes on it: there is no other to add";
  }
  if (!planted.saved_by.empty()) {
    EXPECT_EQ(ddprun("run", planted.saved_by).status, 0);
    std::filesystem::remove_all(folder_.path() / "results");
  }
  const CommandResult run = ddprun("run", planted.set);
  std::set<std::string> caught = catchers(result_of(folder_, "one").at("rows").at(0));
  std::string said = run.out + run.err;
  EXPECT_EQ(run.status, planted.caught == Caught::by_run) << run.out << run.err;
  if (planted.caught == Caught::by_sentence) caught.insert("sentence");
  if (planted.caught == Caught::by_verify) {
    const CommandResult verify = ddprun("verify", planted.set);
    EXPECT_EQ(verify.status, 1) << verify.out << verify.err;
    said = verify.out + verify.err;
    caught.insert("verify");
  }
  if (any_seed) return;  // other checks may be the first
  for (const std::string& words : planted.says) EXPECT_THAT(said, HasSubstr(words));
  std::string by;
  for (const std::string& each : caught) append("`" + each + "`", by);
  CaughtBy page = caught_on_page();
  if (!rewrites_pages()) {
    EXPECT_EQ(by, page[planted.name]) << said;
    return;
  }
  page[planted.name] = by;
  expect_table(kPage, kMarker, table_of(page));
}

TEST(PlantedFaultsPage, HasTheFaultsThatAreTestedAndNoOthers) {
  std::set<std::string> tested, written;
  for (const Planted& each : planted_faults()) tested.insert(each.name);
  const CaughtBy page = caught_on_page();
  expect_table(kPage, kMarker, table_of(page));
  for (const auto& [fault, by] : page) written.insert(fault);
  EXPECT_EQ(written, tested);
  EXPECT_GE(tested.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFault, testing::ValuesIn(planted_faults()),
                         [](const auto& info) { return info.param.name; });

using PlanThatThrows = PlantedFault;

TEST_P(PlanThatThrows, IsNamedByEachCommandBeforeAnythingRuns) {
  for (const char* command : {"validate", "run", "verify"}) {
    const CommandResult refused = ddprun(command, GetParam().set);
    EXPECT_EQ(refused.status, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("a plugin failed: strategy planted, plan()")) << command;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, PlanThatThrows,
                         testing::Values(Planted{"", {fault("throw_in_plan"), kOverlap}}));

using MistypedFault = PlantedFault;

TEST_P(MistypedFault, IsRefused) {
  const CommandResult refused = ddprun("run", GetParam().set);
  EXPECT_NE(refused.status, 0);
  for (const std::string& words : GetParam().says) EXPECT_THAT(refused.err, HasSubstr(words));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, MistypedFault,
    testing::Values(Planted{"", {fault("halv")}, {"no such fault was planted in a step"}},
                    Planted{"", attention("windo"), {"did you mean 'window'?"}}));

using RightStrategy = PlantedFault;

TEST_P(RightStrategy, IsProvedAndVerified) {
  ASSERT_GT(unseen_step(), 0);
  for (const char* command : {"run", "verify"}) {
    const CommandResult run = ddprun(command, GetParam().set);
    EXPECT_EQ(run.status, 0) << command << "\n" << run.out << run.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    NoFault, RightStrategy,
    testing::Values(Planted{"fp32", {kClip}}, Planted{"accumulation", {kAccumulate}},
                    Planted{"bf16_mixed", {kBf16}}, Planted{"overlap", {kOverlap, kAccumulate}},
                    Planted{"sgd", {"optimizer={name: sgd, lr: 0.05, momentum: 0.9}", kClip}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ddprun::test
