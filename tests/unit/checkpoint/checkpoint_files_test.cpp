// Checkpoints that are damaged in each way, and how two differ.
#include "ddprun/checkpoint/checkpoint_files.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "ddprun/base/hash.h"
#include "ddprun/checkpoint/tensor_file.h"
#include "support/ddprun_command.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

FileHashes write_file(const fs::path& path, const std::string& name, const at::Tensor& values) {
  const TensorFileLayout layout({{name, values.scalar_type(), {values.numel()}}});
  create_tensor_file(path, layout);
  return write_parts(path, layout, {{.name = name, .values = values}});
}

/// Of one parameter and one moment.
CheckpointState write_checkpoint(const fs::path& folder, const at::Tensor& w) {
  fs::create_directories(folder);
  CheckpointState state;
  state.files[kModelFile] = write_file(folder / kModelFile, "w", w);
  state.files[kOptimizerFile] = write_file(folder / kOptimizerFile, "w.exp_avg", at::zeros({3}));
  std::ofstream(folder / kStateFile) << to_json_text(state);
  return state;
}

class CheckpointFiles : public testing::Test {
 protected:
  fs::path folder() const { return temporary_.path() / "a"; }
  std::string damage() const { return first_damage(folder(), read_state(folder())); }

  test::TemporaryFolder temporary_;
  CheckpointState state_ = write_checkpoint(folder(), at::arange(4).to(at::kFloat));
};

TEST_F(CheckpointFiles, AreWhatWasSaved) { EXPECT_EQ(damage(), ""); }

TEST_F(CheckpointFiles, EveryOtherBitIsSeen) {
  const std::string whole = test::read_file(folder() / kModelFile);
  for (std::size_t at = whole.size() - 16; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      std::ofstream(folder() / kModelFile, std::ios::binary) << changed;
      EXPECT_THAT(damage(), HasSubstr("model.safetensors: w: another hash")) << at << " " << bit;
    }
  }
}

TEST_F(CheckpointFiles, AnotherNameDtypeOrLengthIsSeen) {
  const at::Tensor w = at::arange(4).to(at::kFloat);
  for (const auto& [name, values] :
       {std::pair("v", w), std::pair("w", at::cat({w, w})), std::pair("w", w.view(at::kInt)),
        std::pair("w", w.to(at::kLong))}) {
    write_file(folder() / kModelFile, name, values);
    EXPECT_EQ(damage(), "model.safetensors: another header than when it was saved");
  }
}

TEST_F(CheckpointFiles, WhatIsMissingOrTooMuchIsSeen) {
  fs::rename(folder() / kOptimizerFile, folder() / "aside");
  EXPECT_THAT(test::error_of<ConfigError>([&] { damage(); }), HasSubstr("optimizer.safetensors"));
  fs::rename(folder() / "aside", folder() / kOptimizerFile);
  fs::copy_file(folder() / kModelFile, folder() / rank_file(0));
  EXPECT_EQ(damage(), "rank-00000.safetensors: state.json does not have it");
  fs::remove(folder() / rank_file(0));
  state_.files[rank_file(1)];
  EXPECT_EQ(first_damage(folder(), state_), "rank-00001.safetensors: it is not there");
}

TEST_F(CheckpointFiles, HashesOfSomeElementsAreNotEnough) {
  for (const std::vector<PartHash>& parts : {std::vector<PartHash>{},
                                             {{0, 3, 0}},
                                             {{1, 3, 0}},
                                             {{1, 4, 0}},
                                             {{0, 2, 0}, {1, 3, 0}},
                                             {{0, 2, 0}, {1, 2, 0}},
                                             {{0, std::numeric_limits<std::int64_t>::max(), 0}},
                                             {{0, 4, 0}, {0, 4, 0}},
                                             {{0, 0, 0}}}) {
    state_.files[kModelFile].tensors["w"] = parts;
    EXPECT_THAT(first_damage(folder(), state_), HasSubstr("no hash of each of its elements"));
  }
  const float half[] = {0, 1};
  state_.files[kModelFile].tensors["w"] = {
      {0, 2, hash64({reinterpret_cast<const char*>(half), sizeof half})}, {2, 2, 0}};
  EXPECT_THAT(first_damage(folder(), state_), HasSubstr("another hash")) << "of the second part";
}

TEST_F(CheckpointFiles, NumbersThatAreNotFiniteAreSeen) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    at::Tensor w = at::ones({4}, dtype);
    w[2] = dtype == at::kHalf ? 65504 : 3e38;
    write_checkpoint(folder(), w);
    EXPECT_EQ(damage(), "") << dtype;
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      w[3] = value;
      write_checkpoint(folder(), w);
      EXPECT_THAT(damage(), HasSubstr("values that are not finite")) << dtype;
    }
  }
}

TEST_F(CheckpointFiles, MomentsAreFiniteAndWhatPluginsCarryNeedNotBe) {
  const at::Tensor values = at::full({3}, NAN);
  state_.files[rank_file(0)] = write_file(folder() / rank_file(0), "strategy.q", values);
  EXPECT_EQ(first_damage(folder(), state_), "");
  state_.files[kOptimizerFile] = write_file(folder() / kOptimizerFile, "w.exp_avg", values);
  EXPECT_EQ(first_damage(folder(), state_),
            "optimizer.safetensors: w.exp_avg: values that are not finite");
}

/// Bytes flipped, left out, repeated, put in, or cut off.
std::string mutated(std::string bytes, std::mt19937_64& dice) {
  const auto below = [&dice](std::size_t bound) { return bound == 0 ? 0 : dice() % bound; };
  for (std::size_t change = 1 + below(3); change > 0; --change) {
    const std::size_t at = below(bytes.size() + 1), length = below(12);
    switch (below(5)) {
      case 0:
        bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        bytes.erase(std::min(at, bytes.size()), length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      case 3:
        bytes.insert(at, std::string(length, static_cast<char>(below(256))));
        break;
      default:
        bytes.resize(at);
    }
    if (bytes.empty()) break;
  }
  return bytes;
}

TEST_F(CheckpointFiles, MutatedOnesAreRefusedOrWhatWasSaved) {
  const char* const asked = std::getenv("DDPRUN_MUTATIONS");
  std::mt19937_64 dice(1);
  std::vector<std::pair<const char*, std::string>> files;
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    files.emplace_back(name, test::read_file(folder() / name));
  }
  const int count = asked == nullptr ? 2000 : std::atoi(asked);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const auto& [name, good] = files[dice() % files.size()];
    const std::string bytes = mutated(good, dice);
    std::ofstream(folder() / name, std::ios::binary) << bytes;
    try {
      if (damage().empty()) {
        ++accepted;
        ASSERT_TRUE(bytes == good ||
                    (name == kStateFile && to_json_text(read_state(folder())) == good))
            << name << ": " << bytes;
      }
    } catch (const ConfigError&) {
    }
    std::ofstream(folder() / name, std::ios::binary) << good;
  }
  EXPECT_LT(accepted, count / 10) << "mutations that changed nothing";
}

TEST_F(CheckpointFiles, RanksShareTheWork) {
  write_file(folder() / kOptimizerFile, "w.exp_avg", at::ones({3}));
  for (const int ranks : {1, 2, 3}) {
    std::string found;
    for (int rank = 0; rank < ranks; ++rank) found += first_damage(folder(), state_, rank, ranks);
    EXPECT_EQ(found, "optimizer.safetensors: w.exp_avg: another hash than when it was saved");
  }
}

TEST_F(CheckpointFiles, DifferencesAreNamed) {
  const fs::path other = temporary_.path() / "b";
  write_checkpoint(other, at::arange(4).to(at::kFloat));
  EXPECT_TRUE(differences(folder(), other).empty());
  at::Tensor w = at::arange(4).to(at::kFloat);
  w[1] = 1.5F;
  w[3] = -4;
  write_checkpoint(other, w);
  auto found = differences(folder(), other);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "w");
  EXPECT_EQ(found[0].words, "2 of 4 values, by 7 at most: 1.75 of the largest");
  write_checkpoint(other, at::ones({2}));
  fs::copy_file(other / kModelFile, other / rank_file(0));
  found = differences(folder(), other);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].words, "F32 [4], and F32 [2]");
  EXPECT_EQ(found[1].words, "only in the second");
  fs::remove(other / rank_file(0));
  write_file(other / kModelFile, "v", at::ones({2}));
  found = differences(folder(), other);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name + " " + found[0].words, "w only in the first");
  EXPECT_EQ(found[1].name + " " + found[1].words, "v only in the second");
}

}  // namespace
}  // namespace ddprun
