// state.json there and back, what is no such file, and saves where a checkpoint stands.
#include "ddprun/checkpoint/checkpoint_state.h"

#include <exception>
#include <filesystem>
#include <iomanip>
#include <set>
#include <sstream>
#include <string>

#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/checkpoint/checkpoint_folder.h"
#include "support/ddprun_command.h"

namespace ddprun {
namespace {

CheckpointState some_state() {
  return {
      .step = 200,
      .updates = 198,
      .ranks = 2,
      .global_batch = 8,
      .strategy = "zero2",
      .precision = "fp32",
      .optimizer = "adamw",
      .ddprun = "0.1.0",
      .torch = "2.15.0",
      .config = "name: \"τ\"\n",
      .data = 0xffffffffffffffff,
      .files = {{kModelFile, {7, {{"w", {{0, 3, 1}, {3, 4, 0x8000000000000001}}}, {"empty", {}}}}},
                {kOptimizerFile, {}}}};
}

TEST(CheckpointState, ComesBackAsItWas) {
  const CheckpointState state = some_state();
  const CheckpointState read = state_from_text(to_json_text(state));
  EXPECT_EQ(to_json_text(read), to_json_text(state));
  EXPECT_EQ(read.step, 200);
  EXPECT_EQ(read.data, 0xffffffffffffffff);
  EXPECT_EQ(read.files, state.files);
}

TEST(CheckpointState, AnyOtherByteIsRefused) {
  const std::string text = to_json_text(some_state());
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    for (const char other : {'0', '1', '"', ' ', 'a', '\x80'}) {
      std::string changed = text;
      if (changed[at] == other) continue;
      changed[at] = other;
      try {
        EXPECT_EQ(to_json_text(state_from_text(changed)), text) << at << " became " << other;
      } catch (const std::exception&) {
      }
    }
  }
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_ANY_THROW(state_from_text(text.substr(0, length))) << length;
  }
}

TEST(CheckpointState, OfAnotherFormatOrWithoutASenseIsRefused) {
  for (const auto number :
       {&CheckpointState::step, &CheckpointState::updates, &CheckpointState::ranks}) {
    CheckpointState state = some_state();
    state.*number = -1;
    EXPECT_ANY_THROW(state_from_text(to_json_text(state)));
  }
  nlohmann::json later = parse_json(to_json_text(some_state()));
  later["format"] = 2;
  later.erase("hash");
  std::ostringstream hash;
  hash << std::hex << std::setw(16) << std::setfill('0') << hash64(json_text(later));
  later["hash"] = hash.str();
  EXPECT_THAT(test::error_of<std::runtime_error>([&] { state_from_text(json_text(later)); }),
              HasSubstr("format 2"));
}

TEST(CheckpointState, NamesSortByStep) {
  EXPECT_EQ(checkpoint_name(200), "step-00000200");
  EXPECT_EQ(checkpoint_step("step-00000200"), 200);
  EXPECT_EQ(checkpoint_step("step-123456789"), 123456789);
  for (const char* name : {"step-", "step-1x", "step--1", "latest", ".step-00000200", ""}) {
    EXPECT_LT(checkpoint_step(name), 0) << name;
  }
}

TEST(CheckpointState, TheLatestIsWhatTheFileNames) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(find_checkpoint(folder.path()), "");
  EXPECT_EQ(find_checkpoint(folder.path() / "absent"), "");
  folder.write("step-00000002/state.json", to_json_text(some_state()));
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() / "step-00000002") << "the first one";
  folder.write("step-00000004/state.json", to_json_text(some_state()));
  folder.write("step-00000005/model.safetensors", "without a state");
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() / "step-00000004");
  folder.write("latest", "step-00000002\n");
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() / "step-00000002");
  EXPECT_EQ(find_checkpoint(folder.path() / "step-00000002"), folder.path() / "step-00000002");
  EXPECT_EQ(read_state(folder.path() / "step-00000002").step, 200);
  for (const char* name : {"step-00000006", "../step-00000002", ""}) {
    folder.write("latest", name);
    EXPECT_THAT(test::error_of<ConfigError>([&] { find_checkpoint(folder.path()); }),
                HasSubstr("which is not there"));
  }
  folder.write("step-00000002/state.json", "{}");
  EXPECT_THAT(test::error_of<ConfigError>([&] { read_state(folder.path() / "step-00000002"); }),
              HasSubstr("no checkpoint can be read there"));
}

TEST(CheckpointFolder, WhatStandsAtASavesPlaceGoesIfItIsTheSameOrGetsAnotherName) {
  const test::TemporaryFolder folder;
  const auto save = [&](CheckpointFolder& into, std::int64_t step, std::uint64_t hash) {
    CheckpointState state = some_state();
    state.step = step;
    state.files = {{kModelFile, {hash, {}}}};
    into.begin(step);
    into.complete(state);
  };
  const auto there = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  folder.write(".step-00000003.unfinished/state.json", "");
  folder.write(".notes.unfinished/of_somebody_else", "");
  std::set<std::string> expected = {".lock",         "latest",        ".notes.unfinished",
                                    "step-00000004", "step-00000005", "step-00000006"};
  {
    CheckpointFolder into(folder.path());
    for (std::int64_t step = 4; step < 7; ++step) save(into, step, 1);
  }
  folder.write("latest", "step-00000004\n");  // cut short before it named others
  {
    CheckpointFolder into(folder.path());
    for (std::int64_t step = 5; step < 7; ++step) save(into, step, 1);
    EXPECT_EQ(there(), expected);
  }
  CheckpointFolder other(folder.path());  // of a run that went on from step 3
  for (std::int64_t step = 4; step < 7; ++step) {
    save(other, step, 2);
    expected.insert(checkpoint_name(step) + ".replaced-1");
    EXPECT_EQ(there(), expected);
    EXPECT_EQ(find_checkpoint(folder.path()), folder.path() / checkpoint_name(step));
  }
  EXPECT_EQ(read_state(folder.path() / "step-00000006.replaced-1").files.at(kModelFile).header, 1U);
  EXPECT_EQ(read_state(folder.path() / "step-00000006").files.at(kModelFile).header, 2U);
}

}  // namespace
}  // namespace ddprun
