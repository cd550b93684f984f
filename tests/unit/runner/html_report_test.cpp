// What is in a page: the result, whatever its texts, and nothing that a browser would run or fetch.
#include "runner/html/html_report.h"

#include "support/ddprun_command.h"
#include "support/matchers.h"
#include "support/report_rows.h"
#include "support/temporary_folder.h"
#include "support/written_results.h"

namespace ddprun::test::html_report_test {
namespace {

using nlohmann::json;

constexpr const char* kHostile =
    "</script><script>alert(1)</script><!-- <script> & \" \\ é {{data}}";

const ResultContext kContext{"known", "2026-11-25T00:00:00Z", {"ddprun", "it's.yaml"}, {}, {}, {}};

/// The text between the element of the data and its end, as a browser finds it.
std::string data_text(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(HtmlReport, HasTheResultButForItsTimelines) {
  std::vector<Row> rows = {known_row("a"), known_row("b")};
  rows[0].ranks[0].timeline.push_back({.step = 3});
  const TableLines table(rows);
  json expected = result_json(kContext, table);
  ASSERT_EQ(expected["rows"][0]["ranks"][0]["timeline"].size(), 1U);
  for (json& row : expected["rows"]) {
    for (json& rank : row["ranks"]) rank.erase("timeline");
  }
  const json data = json::parse(data_text(html_of_run(kContext, table, {})));
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(data[0]["result"], expected);
  EXPECT_EQ(data[0]["command"], R"(ddprun 'it'\''s.yaml')") << "as a shell takes it";
  EXPECT_EQ(data[0]["table"]["lines"].size(), 2U);
  EXPECT_EQ(data[0]["table"]["columns"][1]["title"], "step ms");
  const json& quantities = data[0]["kinds"]["training"]["quantities"];
  EXPECT_EQ(quantities[0]["key"], "step_ms");
  EXPECT_EQ(quantities[0]["shown"], "ms");
  for (const char* key : {"exposed_share", "overlapped_share", "mfu"}) {
    EXPECT_EQ(element_of(quantities, "key", key)["shown"], "%") << key;
  }
  EXPECT_EQ(element_of(quantities, "key", "error_feedback")["shown"], "fraction");
}

TEST(HtmlReport, HasTheTimelineOfTheLinesThatTheResultChose) {
  std::vector<Row> rows = {known_row("a=one"), known_row("a=two")};
  for (Row& row : rows) {
    for (RankResult& rank : row.ranks) {
      rank.timeline = {{.step = 3, .phases = {{"forward", 0, 1'000'000}}}};
    }
  }
  const TableLines table(rows);
  ResultContext context = kContext;
  const auto timeline_of = [&](const json& chosen) {
    json result = result_json(context, table);
    if (!chosen.is_null()) result[kDrawnLines] = chosen;
    return page_of_result(table, result, "", {})["timeline"].get<std::string>();
  };
  EXPECT_EQ(timeline_of(nullptr), "") << "nothing communicates";
  context.report.timeline = {2};
  const std::string second = timeline_of(nullptr);
  EXPECT_THAT(second, HasSubstr("<desc>Phases, waits and collectives"));
  EXPECT_THAT(second, HasSubstr(">two</text>"));
  EXPECT_THAT(second, Not(HasSubstr(">one</text>")));
  EXPECT_EQ(timeline_of({0, 3, "1", -1, 2}), second) << "of what is no line nothing is drawn";
}

TEST(HtmlReport, HasPicturesOfMemoryThatAreThere) {
  std::vector<Row> rows = {known_row("a=1"), known_row("a=2"), known_row("a=3")};
  for (std::size_t i : {1U, 2U}) {
    rows[i].ranks[0].memory_peak = {.phase = "forward", .categories = {{"parameters", 8}}};
  }
  const TemporaryFolder folder("profile/01/memory.svg", "none was recorded");
  folder.write("profile/03/memory.svg", "<svg/>");
  const json data = json::parse(data_text(html_of_run(kContext, TableLines(rows), folder.path())));
  EXPECT_EQ(data[0]["memory"], (json{{"2", "<svg/>"}}));
}

TEST(HtmlReport, NoTextOfAResultEndsTheElementThatHoldsIt) {
  Row failed = known_row(kHostile);
  failed.status = RowStatus::failed;
  failed.reason = kHostile;
  const std::vector<Row> rows = {known_row(kHostile), failed};
  const std::string page = html_of_run(kContext, TableLines(rows), {});
  const std::string plain = html_of_run(kContext, TableLines({known_row("a"), known_row("b")}), {});
  for (const char* mark : {"<script", "</script", "<!--", "{{styles}}", "{{scripts}}"}) {
    EXPECT_EQ(count(page, mark), count(plain, mark)) << mark;
  }
  const json data = json::parse(data_text(page));
  EXPECT_EQ(data[0]["result"]["rows"][1]["reason"], kHostile);
  EXPECT_THAT(data[0]["result"]["table"][0]["name"].get<std::string>(), HasSubstr(kHostile));
}

TEST(HtmlReport, ATextThatIsNoUtf8IsReplaced) {
  const std::vector<Row> rows = {known_row("a\xff")};
  EXPECT_NO_THROW(json::parse(data_text(html_of_run(kContext, TableLines(rows), {}))));
}

TEST(HtmlReport, NamesTheTitlesOfEachResultAndAllowsNoNetwork) {
  const std::vector<Row> rows = {known_row("a")};
  const TableLines table(rows);
  const json one = page_of_result(table, result_json(kContext, table), "here/result.json", "here");
  const std::string page = html_page({one, one});
  EXPECT_EQ(json::parse(data_text(page)).size(), 2U);
  EXPECT_EQ(json::parse(data_text(page))[1]["place"], "here/result.json");
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* fetches : {"<link", " src=", "@import", "url(", "connect-src"}) {
    EXPECT_THAT(page, Not(HasSubstr(fetches)));
  }
}

TEST(HtmlReport, SaysWhichSentencesAreWhatRowsSayTogether) {
  Row slow = known_row("strategy=slow");
  scale_steps(slow, 2);
  Row fast = known_row("strategy=fast");
  slow.baseline = fast.baseline = slow.fingerprint;
  const std::vector<Row> rows = {slow, fast};
  const json data = json::parse(data_text(html_of_run(kContext, TableLines(rows), {})));
  std::size_t findings = 0;
  for (const json& line : data[0]["lines"]) {
    const bool proof = line["text"].get<std::string>().starts_with("proved in");
    EXPECT_FALSE(proof && line["finding"].get<bool>());
    findings += line["finding"].get<bool>();
  }
  EXPECT_EQ(findings, data[0]["result"]["findings"].size());
  EXPECT_GT(findings, 0U);
}

}  // namespace
}  // namespace ddprun::test::html_report_test
