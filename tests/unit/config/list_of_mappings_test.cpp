// Options that are lists of mappings: read strictly, written, listed.
#include "ddprun/config/options_io.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

using test::message_of;

/// A list of mappings.
struct Groups {
  struct Group {
    std::string match;
    double rate = 1;
  };
  double rate = 1;
  std::vector<Group> groups;

  void declare(Options& o) {
    o.option("rate", &rate, "of all", {.min = 0});
    o.list("groups", "other rates", sections(&groups, Group{"", rate}, [](Options& g, Group& one) {
             g.option("match", &one.match, "names");
             g.option("rate", &one.rate, "of these", {.min = 0});
           }));
  }

  void read(const std::string& text) {
    read_options(parse_yaml(text, "a.yaml"), "optimizer", [this](Options& o) { declare(o); });
  }
};

TEST(ListsOfMappings, AreReadWrittenAndListed) {
  Groups some;
  some.read("rate: 3\ngroups: [{match: a}, {match: b, rate: 2}]\n");
  ASSERT_EQ(some.groups.size(), 2U);
  EXPECT_EQ(some.groups[0].match, "a");
  EXPECT_EQ(some.groups[0].rate, 3) << "what a new one has depends on what was read before";
  EXPECT_EQ(some.groups[1].rate, 2);
  const auto declare = [&](Options& o) { some.declare(o); };
  EXPECT_EQ(compact(write_options(declare)),
            "{rate: 3, groups: [{match: a, rate: 3}, {match: b, rate: 2}]}");
  Groups one;
  one.read("groups: {match: c}\n");
  ASSERT_EQ(one.groups.size(), 1U) << "one mapping stands for a list of one";
  const auto listed = list_options([](Options& o) { Groups().declare(o); });
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[1].type, "list of mappings");
  EXPECT_EQ(listed[1].default_value, "[]");
  EXPECT_EQ(listed[1].allowed, "mappings with match, rate (>= 0)");
}

TEST(ListsOfMappings, AreReadStrictly) {
  const auto error = [](const std::string& text) {
    return test::error_of<ConfigError>([&] { Groups().read(text); });
  };
  EXPECT_EQ(error("groups: [{match: a}, {mach: b}]\n"),
            message_of("unknown key 'mach' in optimizer.groups[1]", "a.yaml:1:23", "b",
                       "match, rate", "did you mean 'match'?"));
  EXPECT_THAT(error("groups: [a]\n"), HasSubstr("optimizer.groups[0] must be a mapping"));
  for (const char* nothing : {"groups:\n", "groups:\n  -\n"}) {
    EXPECT_THAT(error(nothing), AllOf(HasSubstr("'groups' in optimizer has the wrong type"),
                                      HasSubstr("give it a value, or remove the line")))
        << nothing;
  }
  EXPECT_THAT(error("groups: a\n"), HasSubstr("optimizer.groups[0] must be a mapping"));
  EXPECT_THAT(error("groups: [{rate: -1}]\n"),
              HasSubstr("'rate' in optimizer.groups[0] is out of range"));
}

}  // namespace
}  // namespace ddprun
