// What each format writes of two steps, and what happens where it cannot be written.
#include "ddprun/live/live_outputs.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>

#include "ddprun/live/live_file.h"
#include "support/ddprun_command.h"

namespace ddprun::live_outputs_test {
namespace {

using nlohmann::json;
using test::lines_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

LiveRun a_run() {
  return {.name = "mine",
          .row = "strategy=\"flat\"",
          .run = "02",
          .seed = 7,
          .ranks = 2,
          .steps = 4,
          .global_batch = 8,
          .context_length = 16,
          .micro_batch = 2,
          .accumulate = 2,
          .eval_samples = 16,
          .optimizer = {.lr = 0.5, .schedule = {.name = Schedule::cosine, .warmup_steps = 1}}};
}

void train(LiveOutputs& outputs) {
  outputs.begin(a_run());
  outputs.steps_begin({.products = "float8", .attention = "float16", .communication = "bfloat16"});
  outputs.step({.step = 0, .warmup = true, .loss = 2, .step_ms = 10, .tokens_per_s = 12800});
  outputs.step({.step = 1,
                .loss = std::nan(""),
                .step_ms = 20,
                .tokens_per_s = 6400,
                .lr = 0.25,
                .validation_loss = 1.5});
}

TEST(LiveOutputs, AJsonLineAStepAndOneOfTheEnd) {
  const TemporaryFolder folder;
  LiveOutputs outputs({.jsonl = true}, folder.path() / "live/02");
  train(outputs);
  outputs.end(kLiveOk);
  const auto lines = lines_of(folder.read("live/02/steps.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  const json first = json::parse(lines[0]), second = json::parse(lines[1]);
  EXPECT_EQ(first["step"], 0);
  EXPECT_EQ(first["warmup"], true);
  EXPECT_EQ(first["loss"], 2.0);
  EXPECT_FALSE(first.contains("lr")) << "it is not known";
  EXPECT_EQ(first["row"], "strategy=\"flat\"");
  EXPECT_EQ(first["run"], "02");
  EXPECT_THAT(first["time"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..\\....Z"));
  EXPECT_GT(first["time_s"].get<double>(), 1.7e9);
  EXPECT_EQ(second["loss"], "nan");
  EXPECT_EQ(second["validation_loss"], 1.5);
  const json end = json::parse(lines[2]);
  EXPECT_EQ(end["status"], "ok");
  EXPECT_EQ(end["steps_done"], 2);
}

TEST(LiveOutputs, ARunThatIsLeftHasFailed) {
  const TemporaryFolder folder;
  {
    LiveOutputs outputs({.jsonl = true, .mllog = true}, folder.path());
    train(outputs);
  }
  EXPECT_EQ(json::parse(lines_of(folder.read("steps.jsonl")).back())["status"], "failed");
  EXPECT_THAT(lines_of(folder.read("mllog.txt")).back(), HasSubstr("\"status\":\"aborted\""));
}

/// mlperf-logging's checker allows one init_stop a file.
TEST(LiveOutputs, ARunThatIsStartedAgainBeginsAnotherMllog) {
  const TemporaryFolder folder;
  for (int start = 0; start < 3; ++start) {
    LiveOutputs outputs({.mllog = true}, folder.path());
    train(outputs);
    if (start == 2) outputs.end(kLiveOk);
  }
  for (const char* name : {"mllog.txt", "mllog_1.txt", "mllog_2.txt"}) {
    const auto lines = lines_of(folder.read(name));
    EXPECT_EQ(std::ranges::count_if(lines,
                                    [](const std::string& line) {
                                      return line.find("\"init_stop\"") != std::string::npos;
                                    }),
              1)
        << name;
  }
  EXPECT_THAT(lines_of(folder.read("mllog_2.txt")).back(), HasSubstr("\"status\":\"aborted\""));
  EXPECT_THAT(lines_of(folder.read("mllog.txt")).back(), HasSubstr("\"status\":\"success\""));
}

TEST(LiveOutputs, PrometheusHasHelpTypeAndLabels) {
  const TemporaryFolder folder;
  LiveOutputs outputs({.prometheus = folder.path() / "ddprun.prom"}, {});
  train(outputs);
  const std::string labels = "{row=\"strategy=\\\"flat\\\"\",run=\"02\"}";
  EXPECT_THAT(folder.read("ddprun.prom"), HasSubstr("\nddprun_step" + labels + " 1\n"))
      << "the second step came within a second";
  outputs.end(kLiveOk);
  const std::string text = folder.read("ddprun.prom");
  EXPECT_THAT(text, HasSubstr("# TYPE ddprun_tokens_total counter\nddprun_tokens_total" + labels +
                              " 256\n"));
  EXPECT_THAT(text, HasSubstr("\nddprun_step" + labels + " 2\n"));
  EXPECT_THAT(text, HasSubstr("\nddprun_loss" + labels + " NaN\n"));
  EXPECT_THAT(text, HasSubstr("\nddprun_step_seconds" + labels + " 0.02\n"));
  EXPECT_THAT(text, HasSubstr("\nddprun_running" + labels + " 0\n"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "no partial file stays";
}

TEST(LiveOutputs, LinesOfMllogSayThatTheyAreNoResult) {
  const TemporaryFolder folder;
  LiveOutputs outputs({.mllog = true}, folder.path());
  train(outputs);
  outputs.end(kLiveOk);
  const auto lines = lines_of(folder.read("mllog.txt"));
  EXPECT_THAT(lines[0], HasSubstr("Not an MLPerf result"));
  std::vector<std::string> keys;
  std::map<std::string, json> values;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    ASSERT_TRUE(lines[i].starts_with(":::MLLOG {"));
    const json line = json::parse(lines[i].substr(std::strlen(":::MLLOG ")));
    EXPECT_EQ(line["metadata"]["file"], "mllog.cpp");
    keys.push_back(line["key"]);
    values[keys.back()] = line["value"];
    if (line["key"] == "eval_accuracy") {
      EXPECT_EQ(line["metadata"]["samples_count"], 16);
    }
  }
  const std::vector<std::string> last(keys.end() - 8, keys.end());
  EXPECT_EQ(last,
            (std::vector<std::string>{"init_stop", "run_start", "block_start", "block_stop",
                                      "eval_accuracy", "block_start", "block_stop", "run_stop"}))
      << "a block begins where the one before ends, not after its own first step";
  EXPECT_THAT(keys, IsSupersetOf({"seed", "opt_adamw_beta_1", "train_samples"}));
  EXPECT_EQ(values["micro_batch_size"], 2);
  EXPECT_EQ(values["gradient_accumulation_steps"], 2);
  EXPECT_EQ(values["config_filename"], "resolved/02.yaml");
  EXPECT_EQ(values["lowest_numerical_precision_in_linear"], "fp8");
  EXPECT_EQ(values["lowest_numerical_precision_in_attn"], "fp16");
  EXPECT_EQ(values["lowest_numerical_precision_in_comm"], "bfloat16");
  EXPECT_EQ(values["opt_learning_rate_decay_schedule"], "cosine with linear warmup");
  EXPECT_EQ(values["opt_learning_rate_decay_steps"], 3);
}

TEST(LiveOutputs, RecordsOfTensorBoardHaveTheirSums) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);  // the check value of CRC-32C
  const std::string record = tf_record("123456789");
  ASSERT_EQ(record.size(), 8u + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  // 0xE3069283, rotated to the right by 15 bits, plus 0xA282EAD8: 0xc78ab0e5, lowest byte first.
  EXPECT_EQ(record.substr(21),
            "\xe5"
            "\xb0"
            "\x8a"
            "\xc7");
}

TEST(LiveOutputs, OneThatCannotBeWrittenIsOffAndTheOthersGoOn) {
  const TemporaryFolder folder("file", "");
  LiveOutputs outputs({.jsonl = true, .prometheus = folder.path() / "ddprun.prom"},
                      folder.path() / "file");  // no folder can have that name
  testing::internal::CaptureStdout();
  train(outputs);
  EXPECT_TRUE(outputs.any());
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("output.jsonl is off from here on"));
  EXPECT_EQ(said.find("is off"), said.rfind("is off")) << "once";
  outputs.end(kLiveOk);
  EXPECT_THAT(folder.read("ddprun.prom"), HasSubstr("ddprun_step"));
}

TEST(LiveOutputs, ALineThatDoesNotFitIsTakenBack) {
  const TemporaryFolder folder;
  LiveFile file(folder.path() / "a");
  file.append("0123456\n");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit ten_bytes{10, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &ten_bytes);
  std::string said;
  try {
    file.append("abcdefg\n");
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, HasSubstr("File too large"));
  EXPECT_EQ(folder.read("a"), "0123456\n");
}

std::string refusal_of(const std::string& path) {
  return test::error_of<ConfigError>(
      [&] { check_prometheus_file({.prometheus = path}, "run.yaml:1:1"); });
}

TEST(LiveOutputs, APathOfPrometheusIsTriedBefore) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("is a folder"));
  EXPECT_THAT(refusal_of(folder.path() / "none/a.prom"), HasSubstr("No such file"));
  EXPECT_EQ(refusal_of(folder.path() / "a.prom"), "no error");
  EXPECT_TRUE(fs::is_empty(folder.path())) << "a trial leaves nothing";
  fs::create_symlink("/dev/null", folder.path() / "device.prom");
  EXPECT_THAT(refusal_of(folder.path() / "device.prom"), HasSubstr("is no file"));
}

}  // namespace
}  // namespace ddprun::live_outputs_test
