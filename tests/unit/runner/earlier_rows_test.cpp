// --resume believes no result that this ddprun cannot have written.
#include "runner/report/earlier_rows.h"

#include <sys/stat.h>

#include "runner/report/result_files.h"
#include "support/ddprun_command.h"
#include "support/report_rows.h"
#include "support/written_results.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

Row whole_row() {
  Row row = known_row("a=1");
  row.config = {{"train", {{"steps", 3}}}, {"output", {{"dir", "results"}}}};
  return row;
}

json whole_result() {
  return result_json({"known", "T1", {"ddprun"}, {}, "", {}}, TableLines({whole_row()}));
}

struct Found {
  std::size_t rows;
  std::string log;
};

/// What is found where result.json of T1 holds `text`.
Found read_result(const std::string& text) {
  TemporaryFolder folder("known/T1/result.json", text);
  testing::internal::CaptureStdout();
  const std::size_t rows = earlier_rows(folder.path() / "known").size();
  return {rows, testing::internal::GetCapturedStdout()};
}

TEST(EarlierRows, WhatWasWrittenIsBelieved) {
  const Found found = read_result(whole_result().dump());
  EXPECT_EQ(found.rows, 1u);
  EXPECT_EQ(found.log, "");
}

TEST(EarlierRows, AWholeResultHasWhatStandsAroundItsRows) {
  const auto read = [](const json& result) {
    const TemporaryFolder folder("result.json", result.dump());
    return error_of<ConfigError>([&] { ddprun::whole_result(folder.path() / "result.json"); });
  };
  EXPECT_EQ(read(whole_result()), "no error");
  for (const char* key : {"name", "time", "command_line", "environment", "table"}) {
    for (const json& value : {json(5), json({5})}) {
      json result = whole_result();
      result[key] = value;
      EXPECT_THAT(read(result), HasSubstr("not a result that this ddprun wrote")) << result[key];
    }
  }
}

TEST(EarlierRows, AStatusOtherThanWhatItsChecksSayIsNotBelieved) {
  for (const std::string status : {"proof failed", "failed", "diverged"}) {
    json result = whole_result();
    result["rows"][0]["status"] = status;
    const TemporaryFolder folder("result.json", result.dump());
    EXPECT_THAT(error_of<ConfigError>([&] { ddprun::whole_result(folder.path() / "result.json"); }),
                HasSubstr("status is " + status + ", and the ranks say ok"));
  }
}

TEST(EarlierRows, AResultWhoseRowsAreThereStillIsNotComplete) {
  TemporaryFolder folder("known/T1/result.json", whole_result().dump());
  const auto complete_one = [&folder] {
    return earlier_rows(folder.path() / "known").begin()->second.front().folder;
  };
  EXPECT_EQ(complete_one(), folder.path() / "known/T1");
  fs::create_directory(folder.path() / "known/T1/rows");  // the disk was full behind result.json
  EXPECT_EQ(complete_one(), fs::path());
}

TEST(EarlierRows, ALineIsReadAsARowAndSaidIfItIsDamaged) {
  std::string text;
  write_result_json({"known", "T1", {"ddprun"}, {}, "", {}}, TableLines({whole_row()}),
                    [&text](std::string_view part) { text += part; });
  EXPECT_EQ(read_result(text).rows, 1u);
  const Found damaged = read_result(replaced(text, "\"world_size\":2", "\"world_size\":3"));
  EXPECT_EQ(damaged.rows, 0u);
  EXPECT_THAT(damaged.log,
              AllOf(HasSubstr("row 1 of"), HasSubstr("world_size is 3, and it has 2 ranks")));
  EXPECT_THAT(read_result(text.substr(0, text.size() - 3)).log,
              HasSubstr("is damaged, and its rows run again"));
}

TEST(EarlierRows, ADamagedRowIsSaidAndLeftOut) {
  const std::pair<const char*, const char*> damages[] = {
      {R"({"op": "replace", "path": "/ranks", "value": []})",
       "world_size is 2, and it has 0 ranks"},
      {R"({"op": "remove", "path": "/ranks/1"})", "it has 1 rank"},
      {R"({"op": "replace", "path": "/world_size", "value": 2.5})",
       "/world_size does not agree with the rest"},
      {R"({"op": "replace", "path": "/world_size", "value": "2"})", "must be number"},
      {R"({"op": "replace", "path": "/ranks/1/rank", "value": 0})", "rank 0 stands in place 1"},
      {R"({"op": "replace", "path": "/ranks/1/checks/0/status", "value": "failed"})",
       "status is ok, and the ranks say proof failed: integer_gradients"},
      {R"({"op": "replace", "path": "/ranks/1/checks/0/status", "value": 3})", "must be string"},
      {R"({"op": "replace", "path": "/ranks/0/samples/loss/2", "value": "nan"})",
       "the ranks say diverged"},
      {R"({"op": "replace", "path": "/work/tokens", "value": -128})", "work.tokens is -128"},
      {R"({"op": "replace", "path": "/work/tokens", "value": "128"})", "work.tokens is"},
      {R"({"op": "replace", "path": "/work", "value": 7})", "work is no mapping"},
      {R"({"op": "replace", "path": "/ranks/0/samples/step_ms/1", "value": -1})",
       "step_ms is -1 in step 1 of rank 0"},
      {R"({"op": "replace", "path": "/ranks/1/samples/step_ms/3", "value": 0})",
       "step_ms is 0 in step 3 of rank 1"},
      {R"({"op": "replace", "path": "/ranks/0/samples/forward_ms/1", "value": "inf"})",
       "forward_ms is inf in step 1"},
      {R"({"op": "replace", "path": "/ranks/1/samples/bytes/3", "value": -8})",
       "bytes is -8 in step 3 of rank 1"},
      {R"({"op": "replace", "path": "/ranks/1/samples/step/3", "value": 9})", "other steps"},
      {R"({"op": "replace", "path": "/ranks/1/peak_resident_bytes", "value": -8})", "no memory"},
      {R"({"op": "remove", "path": "/ranks/0/samples/forward_ms"})", "forward_ms"},
      {R"({"op": "remove", "path": "/ranks/0/samples/forward_ms/1"})", "forward_ms"},
      {R"({"op": "replace", "path": "/statistics/step_ms/median", "value": 1})",
       "/statistics/step_ms/median does not agree"},
      {R"({"op": "replace", "path": "/proof/status", "value": "control"})", "/proof/status"},
      {R"({"op": "add", "path": "/ranks/0/typo", "value": 1})", "/ranks/0/typo"},
      {R"({"op": "replace", "path": "/label", "value": "\u001b[31mred"})", "/label does not agree"},
      {R"({"op": "remove", "path": "/fingerprint"})", "fingerprint"},
      {R"({"op": "add", "path": "/conditions/ranks/backend", "value": "shm"})",
       "its conditions are not those that the ranks observed"},
      {R"({"op": "replace", "path": "/conditions", "value": 7})", "its conditions are not"},
      {R"({"op": "replace", "path": "/occasion/process", "value": "7"})", "must be number"},
      {R"({"op": "replace", "path": "/status", "value": "okay"})", "okay"},
      {R"({"op": "replace", "path": "/status", "value": 1})", "must be string"},
      {R"({"op": "replace", "path": "/kind", "value": "dreaming"})", "unknown kind"}};
  for (const auto& [patch, words] : damages) {
    json result = whole_result();
    result["rows"][0] = result["rows"][0].patch(json::array({json::parse(patch)}));
    const Found found = read_result(result.dump());
    EXPECT_EQ(found.rows, 0u) << patch;
    EXPECT_THAT(found.log, AllOf(HasSubstr("row 1 of "), HasSubstr("known/T1/result.json"),
                                 HasSubstr("is damaged, and runs again: "), HasSubstr(words)))
        << patch;
  }
}

TEST(EarlierRows, ARowWithoutAnyCheckIsNotBelieved) {
  json result = whole_result();
  for (json& rank : result["rows"][0]["ranks"]) rank["checks"] = json::array();
  EXPECT_THAT(read_result(result.dump()).log, HasSubstr("no check was made"));
}

TEST(EarlierRows, ADamagedFileIsSaidAndLeftOut) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string("{ half"), std::string(), std::string("[]"), std::string("7"), deep,
        whole_result().dump() + std::string(2, '\0'), R"({"schema_version": "4"})" + std::string(),
        json({{"schema_version", kResultSchemaVersion}, {"rows", {{"a", 1}}}}).dump()}) {
    const Found found = read_result(text);
    EXPECT_EQ(found.rows, 0u);
    EXPECT_THAT(found.log, AllOf(HasSubstr("known/T1/result.json is damaged, and its rows run "
                                           "again: ")));
  }
}

TEST(EarlierRows, WhatIsNoFileIsNotWaitedFor) {
  TemporaryFolder folder;
  fs::create_directories(folder.path() / "known/T1");
  fs::create_directories(folder.path() / "known/T2/result.json");
  ASSERT_EQ(mkfifo((folder.path() / "known/T1/result.json").c_str(), 0600), 0);
  testing::internal::CaptureStdout();
  EXPECT_TRUE(earlier_rows(folder.path() / "known").empty());
  EXPECT_THAT(
      testing::internal::GetCapturedStdout(),
      AllOf(HasSubstr("known/T1/result.json is damaged"), HasSubstr("a named pipe, not a file"),
            HasSubstr("known/T2/result.json is damaged")));
}

TEST(EarlierRows, ADamagedResultLeavesTheOthers) {
  TemporaryFolder folder("known/T1/result.json", whole_result().dump());
  folder.write("known/T2/result.json", "{ half");
  testing::internal::CaptureStdout();
  EXPECT_EQ(earlier_rows(folder.path() / "known").size(), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("known/T2/result.json is damaged"));
}

TEST(EarlierRows, AnotherSchemaIsSaidOnce) {
  TemporaryFolder folder("known/T1/result.json", whole_result().dump());
  json older = whole_result();
  older["schema_version"] = kResultSchemaVersion - 1;
  older["rows"] = "of another form";
  for (const char* name : {"known/T0/result.json", "known/T2/result.json"}) {
    folder.write(name, older.dump());
  }
  testing::internal::CaptureStdout();
  EXPECT_EQ(earlier_rows(folder.path() / "known").size(), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("known/T2/result.json has schema version " +
                              std::to_string(kResultSchemaVersion - 1)),
                    HasSubstr("reads version " + std::to_string(kResultSchemaVersion) +
                              ": its rows run again"),
                    HasSubstr("(and those of 1 more)")));
}

TEST(EarlierRows, TheExperimentMustBeThatOfThePlan) {
  const Row planned = whole_row();
  EarlierRow earlier{whole_row()};
  earlier.row.config["output"]["dir"] = "elsewhere";
  EXPECT_TRUE(says_the_same(planned, earlier));
  earlier.row.config["train"]["steps"] = -3;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(says_the_same(planned, earlier));
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("/config/train/steps is not of the experiment"));
}

}  // namespace
}  // namespace ddprun::test
