// Which groups of blocks `model.recompute` means, and what it refuses.
#include "ddprun/model/recompute_config.h"

#include "ddprun/config/options_io.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

using test::message_of;

/// `recompute:` with that value.
RecomputeConfig parse(const std::string& value) {
  RecomputeConfig config;
  read_options(parse_yaml("recompute: " + value, "a.yaml"), "model",
               [&config](Options& options) { declare_option(options, config); });
  return config;
}

/// The groups, "0-2 2-4"; behind those that are computed by halves stands an h.
std::string plan_of(const std::string& value, std::int64_t layers) {
  std::string out;
  for (const auto& [first, last, halve] : recompute_plan(parse(value), layers)) {
    out += (out.empty() ? "" : " ") + std::to_string(first) + "-" + std::to_string(last) +
           (halve ? "h" : "");
  }
  return out;
}

TEST(RecomputePlan, CutsTheBlocks) {
  EXPECT_EQ(plan_of("none", 3), "");
  EXPECT_EQ(plan_of("every_block", 3), "0-1 1-2 2-3");
  EXPECT_EQ(plan_of("{groups: 1}", 4), "0-4");
  EXPECT_EQ(plan_of("{groups: 3}", 8), "0-3 3-6 6-8");
  EXPECT_EQ(plan_of("{groups: 4}", 4), "0-1 1-2 2-3 3-4");
  EXPECT_EQ(plan_of("{every: 2}", 5), "0-2 2-4 4-5");
  EXPECT_EQ(plan_of("{every: 2, keep_last: 1}", 5), "0-2 2-4");
  EXPECT_EQ(plan_of("{every: 1, keep_last: 3}", 4), "0-1");
  EXPECT_EQ(plan_of("recursive", 8), "0-4h 4-6h 6-7h");
  EXPECT_EQ(plan_of("recursive", 2), "0-1h");
  EXPECT_EQ(plan_of("recursive", 7), "0-3h 3-5h 5-6h");
}

TEST(RecomputePlan, IsWrittenAsItWasRead) {
  for (const char* value : {"none", "every_block", "recursive", "{groups: 3}", "{every: 2}",
                            "{every: 2, keep_last: 1}"}) {
    RecomputeConfig config = parse(value);
    EXPECT_EQ(to_string(config), value);
    const ConfigNode written =
        write_options([&](Options& options) { declare_option(options, config); });
    EXPECT_EQ(compact(written), "{recompute: " + std::string(value) + "}");
  }
}

/// What reading or planning throws.
std::string error(const std::string& value, std::int64_t layers = 4) {
  return test::error_of<ConfigError>([&] { plan_of(value, layers); });
}

TEST(RecomputePlan, RefusesInWords) {
  EXPECT_EQ(error("evry_block"),
            message_of("'recompute' in model cannot be 'evry_block'", "a.yaml:1:12", "evry_block",
                       "one of none, every_block, recursive, or a mapping with groups (>= 1), "
                       "every (>= 1), keep_last (>= 0) (which blocks backward computes again "
                       "instead of keeping them)",
                       "did you mean 'every_block'?"));
  EXPECT_THAT(error("{}"), StartsWith("'recompute' in model has the wrong type"));
  EXPECT_THAT(error("[1]"), StartsWith("'recompute' in model has the wrong type"));
  EXPECT_EQ(error("{group: 2}"),
            message_of("unknown key 'group' in model.recompute", "a.yaml:1:13", "2",
                       "groups, every, keep_last", "did you mean 'groups'?"));
  for (const char* value : {"{groups: 0}", "{every: 0}", "{groups: -1}"}) {
    EXPECT_THAT(error(value), HasSubstr("in model.recompute is out of range")) << value;
  }
  EXPECT_EQ(error("{groups: 5}"),
            message_of("the model has 4 blocks, too few for 5 groups", "model.recompute",
                       "{groups: 5}", "groups 1 to 4", "lower groups, or raise model.layers"));
  EXPECT_EQ(error("{every: 1, keep_last: 4}"),
            message_of("keep_last 4 of 4 blocks leaves none to compute again", "model.recompute",
                       "{every: 1, keep_last: 4}", "keep_last 0 to 3",
                       "lower keep_last, or write `recompute: none`"));
  EXPECT_THAT(error("{every: 1, keep_last: 1}", 1), HasSubstr("expected: keep_last 0\n"));
  EXPECT_EQ(error("{every: 3, keep_last: 2}"),
            message_of("there is no group of 3 blocks: 2 blocks would be computed again",
                       "model.recompute", "{every: 3, keep_last: 2}", "every 1 to 2",
                       "lower every or keep_last"));
  EXPECT_THAT(error("{groups: 2, every: 2}"),
              StartsWith("model.recompute cuts the blocks in two ways at once\n"));
  EXPECT_THAT(error("{keep_last: 1}"), StartsWith("model.recompute says which blocks to keep"));
  EXPECT_THAT(error("recursive", 1), StartsWith("there is nothing to halve"));
}

}  // namespace
}  // namespace ddprun
