// Files of kinds that only this test has: sections of one and of several kinds, and what a kind has
// of its own.
#include <algorithm>

#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

/// What a kind may have of its own.
struct Walk {
  std::int64_t steps = 1;
  std::vector<std::string> path = {};
};
void declare_options(Options& o, Walk& walk) {
  o.option("steps", &walk.steps, "how far", {.min = 1});
  o.option("path", &walk.path, "where");
}
struct Swim {
  double metres = 25;
};
void declare_options(Options& o, Swim& swim) { o.option("metres", &swim.metres, "how far"); }

struct Trip {
  Walk walk;
  Swim swim;
};

class TestKind : public RunnableKind {
 public:
  TestKind(const char* name, KindFile file) : RunnableKind({.name = name}, std::move(file)) {}

  std::string in_short(const RunStatistics&) const override { return {}; }
  void check(const Experiment&) const override {}
  std::vector<std::string> run_rank(const Experiment&, const PluginRegistry&,
                                    const RunContext&) const override {
    return {};
  }
};

class Trips final : public TestKind {
 public:
  Trips()
      : TestKind("trips",
                 {.own = Trip(),
                  .sections = {own_section("walk", "on foot", &Trip::walk), world_section(),
                               own_section("swim", "in water", &Trip::swim), output_section()},
                  .plugins = {PluginKind::attention}}) {}
  std::vector<std::string*> paths(Experiment& experiment) const override {
    std::vector<std::string*> out;
    for (std::string& path : experiment.as<Trip>().walk.path) out.push_back(&path);
    return out;
  }
};

/// Has a section `swim` that says the same, and a section `walk` that does not.
class Swims final : public TestKind {
 public:
  Swims()
      : TestKind("swims", {.own = Swim(),
                           .sections = {own_section<Swim>("swim", "in water"),
                                        output_section(),
                                        {"walk", "to the water", [](Options& o, Experiment& e) {
                                           o.option("dir", &e.output_dir, "another option");
                                         }}}}) {}
};

class KindFileTest : public ExperimentTest {
 protected:
  ExperimentFile load_as(const std::string& text) {
    std::ofstream(file_) << text;
    return load_experiments(file_, {}, kinds_);
  }

  const Trips trips_;
  const Swims swims_;
  const Kinds kinds_ = {&trips_, &swims_};
};

TEST_F(KindFileTest, ResolvedSectionsStandInTheKindsOrderAndPluginsBehindTheWorld) {
  const Experiment e =
      load_as("attention: a\nswim: {metres: 50}\nwalk: {path: b}\n").experiments[0];
  EXPECT_EQ(e.kind, &trips_) << "the first is that of a file that names none";
  std::vector<std::string> keys;
  for (const auto& [key, value] : resolve(e).map) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("experiment", "name", "plugin_path", "walk", "world", "attention",
                                "swim", "output"));
  EXPECT_EQ(compact(*resolve(e).find("swim")), "{metres: 50}");
  EXPECT_THAT(e.as<Trip>().walk.path, ElementsAre((folder_ / "b").string()));
}

TEST_F(KindFileTest, ACopyHasItsOwn) {
  const Experiment e = load_as("attention: a\n").experiments[0];
  Experiment copy = e;
  copy.as<Trip>().walk.steps = 7;
  copy.plugin(PluginKind::attention).name = "b";
  EXPECT_EQ(e.as<Trip>().walk.steps, 1);
  EXPECT_EQ(e.plugin(PluginKind::attention).name, "a");
  EXPECT_EQ(Experiment(trips_).as<Trip>().walk.steps, 1);
  EXPECT_THROW(copy.as<Swim>(), std::bad_any_cast) << "another kind's";
}

TEST_F(KindFileTest, AKeyOfTwoKindsIsEachKindsOwn) {
  const Experiment e = load_as("experiment: swims\nswim: {}\nwalk: {dir: out}\n").experiments[0];
  EXPECT_EQ(e.output_dir, "out");
  EXPECT_EQ(e.as<Swim>().metres, 25);
  std::ofstream(file_) << "attention: a\nwalk: {dir: out}\n";
  EXPECT_THROW(load_experiments(file_, {}, kinds_), ConfigError);
  std::ofstream(file_) << "experiment: swims\n";
  EXPECT_THROW(load_experiments(file_, {}, kinds_), ConfigError) << "`swim` is all that it has";
}

TEST_F(KindFileTest, SectionsThatKindsHaveAlikeAreDescribedOnce) {
  std::vector<std::string> described;
  for (const auto& [section, options] : describe_sections(kinds_)) {
    described.push_back(section + " " + options.front().key);
  }
  EXPECT_THAT(described, ElementsAre("top level experiment", "report baseline", "walk steps",
                                     "world size", "swim metres", "output dir", "walk dir"));
}

TEST(KindFile, TheShippedKindsShareWhatTheyHaveAlike) {
  std::vector<std::string> described;
  for (const auto& [section, options] : describe_sections(experiment_kinds())) {
    EXPECT_EQ(std::ranges::count(described, section), 0) << section;
    described.push_back(section);
  }
}

}  // namespace
}  // namespace ddprun
