// The examples in docs/model_and_data.md are what the program computes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ddprun/base/counter_hash.h"
#include "ddprun/data/data.h"
#include "ddprun/model/initialization.h"
#include "ddprun/optim/optimizer.h"
#include "support/temporary_folder.h"

namespace ddprun {
namespace {

using Row = std::vector<std::string>;

/// The cells of the table behind `<!-- example: name -->`, without its head.
std::vector<Row> example(const std::string& name) {
  const auto lines = test::lines_of(test::read_file(DDPRUN_SOURCE_DIR "/docs/model_and_data.md"));
  auto line = std::ranges::find(lines, "<!-- example: " + name + " -->");
  std::vector<Row> rows;
  while (line != lines.end() && *++line != "<!-- end -->") rows.push_back(test::cells_of(*line));
  if (rows.size() < 3) ADD_FAILURE() << name << ": no rows";
  rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

constexpr std::int64_t kContextLength = 128;

/// The first token of a sample.
std::int64_t first_token(const DataConfig& config, std::int64_t vocab_size, const Row& row) {
  const auto data = open_data(config, vocab_size, kContextLength, std::stoull(row[0]));
  return data->batch(std::stoll(row[1]), std::stoll(row[2]), 1).ids[0][0].item<std::int64_t>();
}

TEST(ModelAndDataDoc, SamplesStartWhereItSays) {
  const auto file =
      std::filesystem::temp_directory_path() / ("doc_tokens_" + std::to_string(::getpid()));
  std::ofstream out(file, std::ios::binary);
  for (std::uint16_t i = 0; i < 1000; ++i) {  // token i is i
    out.write(reinterpret_cast<const char*>(&i), sizeof i);
  }
  out.close();
  const DataConfig tokens{.source = DataKind::tokens, .path = {file.string()}};
  for (const Row& row : example("data")) {
    const std::uint64_t step_key = counter_hash(std::stoull(row[0]), std::stoull(row[1]));
    EXPECT_EQ(counter_hash(step_key, std::stoull(row[2])), std::stoull(row[3], nullptr, 16));
    EXPECT_EQ(first_token(tokens, 1000, row), std::stoll(row[4])) << row[3];
    EXPECT_EQ(first_token({.source = DataKind::random}, 256, row), std::stoll(row[5])) << row[3];
  }
  std::filesystem::remove(file);
}

TEST(ModelAndDataDoc, ParametersBeginAsItSays) {
  for (const Row& row : example("initialization")) {
    const at::Tensor values = truncated_normal({3}, 1.0, std::stoull(row[0]), row[1]);
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(values[i].item<double>(), std::stod(row[2 + i]), 1.1e-5) << row[1] << " " << i;
    }
  }
}

TEST(ModelAndDataDoc, LearningRatesAreThoseItSays) {
  OptimizerConfig config;
  config.lr = 1.0;
  config.schedule = {.name = Schedule::cosine, .warmup_steps = 4, .min_lr = 0.1};
  for (const Row& row : example("cosine")) {
    EXPECT_NEAR(learning_rate(config, std::stoll(row[0]), 24), std::stod(row[1]), 5e-7) << row[0];
  }
}

}  // namespace
}  // namespace ddprun
