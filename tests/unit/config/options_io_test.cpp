// Declared options: strict reading with the text of each error, writing, listing, and the nearest
// name.
#include "ddprun/config/options_io.h"

#include <stdexcept>

#include "support/matchers.h"

namespace ddprun {
namespace {

using test::message_of;

enum class Algorithm { ring, halving };
constexpr auto choice_names(Algorithm) { return std::array{"ring", "halving"}; }

// One option of each type, as a plugin would declare them.
struct Sample {
  bool pin = true;
  std::int64_t steps = 10;
  double bucket_mb = 25;
  Algorithm algorithm = Algorithm::ring;
  std::string interface = "";
  std::vector<double> betas = {0.9, 0.95};
  std::vector<std::int64_t> sizes = {};
  std::vector<std::string> path = {};
  double min_lr = 1e-8;
  bool steps_given = false;

  void declare(Options& o) {
    o.option("pin", &pin, "ranks to cores");
    steps_given = o.option("steps", &steps, "measured steps", {.min = 1, .max = 1e6});
    o.option("bucket_mb", &bucket_mb, "size of a bucket in MB", {.min = 0.001});
    o.option("algorithm", &algorithm, "of the all-reduce");
    o.option("interface", &interface, "network interface");
    o.option("betas", &betas, "decay rates", {.min = 0, .max = 1});
    o.option("sizes", &sizes, "", {.max = 100});
    o.option("path", &path, "files");
    o.section("schedule", "the learning rate", [this](Options& s) {
      s.option("min_lr", &min_lr, "last learning rate", {.min = 0});
    });
  }

  std::function<void(Options&)> visitor() {
    return [this](Options& o) { declare(o); };
  }
};

Sample read(const std::string& text) {
  Sample sample;
  read_options(parse_yaml(text, "a.yaml"), "strategy", sample.visitor());
  return sample;
}

std::string error_of(const std::string& text) {
  return test::error_of<ConfigError>([&] { read(text); });
}

constexpr const char* kGeneralHint = "`ddprun describe NAME` shows the keys of a section or plugin";

TEST(ReadOptions, SetsWhatIsGivenAndKeepsTheRest) {
  const Sample sample = read(
      "pin: false\n"
      "steps: 1e3\n"
      "bucket_mb: .5\n"
      "algorithm: halving\n"
      "interface: \"5\"\n"
      "betas: [0, 1.0]\n"
      "sizes: [+1, -2]\n"
      "path: one.txt\n"
      "schedule: {min_lr: 1e-3}\n");
  EXPECT_FALSE(sample.pin);
  EXPECT_EQ(sample.steps, 1000);
  EXPECT_EQ(sample.bucket_mb, 0.5);
  EXPECT_EQ(sample.algorithm, Algorithm::halving);
  EXPECT_EQ(sample.interface, "5");
  EXPECT_THAT(sample.betas, ElementsAre(0.0, 1.0));
  EXPECT_THAT(sample.sizes, ElementsAre(1, -2));
  EXPECT_THAT(sample.path, ElementsAre("one.txt"));
  EXPECT_EQ(sample.min_lr, 1e-3);
  EXPECT_TRUE(sample.steps_given);

  const Sample defaults = read("schedule:\n");
  EXPECT_EQ(defaults.steps, 10);
  EXPECT_FALSE(defaults.steps_given);
  EXPECT_THAT(read("path: []\nbetas: []\n").betas, IsEmpty());
}

TEST(ReadOptions, UnknownKey) {
  EXPECT_EQ(error_of("steps: 5\nbukcet_mb: 5\n"),
            message_of("unknown key 'bukcet_mb' in strategy", "a.yaml:2:1", "5",
                       "pin, steps, bucket_mb, algorithm, interface, betas, sizes, path, schedule",
                       "did you mean 'bucket_mb'?"));
  EXPECT_EQ(error_of("schedule: {zzz: 5}\n"),
            message_of("unknown key 'zzz' in strategy.schedule", "a.yaml:1:12", "5", "min_lr",
                       "remove it"));
}

TEST(ReadOptions, UnknownKeyWithoutAnyOptions) {
  const ConfigNode node = parse_yaml("name: flat\nbucket_mb: 5\n", "a.yaml");
  const auto error = [&](const std::vector<std::string>& ignore) -> std::string {
    return test::error_of<ConfigError>([&] {
      read_options(
          node, "strategy", [](Options&) {}, ignore);
    });
  };
  EXPECT_EQ(error({"name", "path"}), message_of("unknown key 'bucket_mb' in strategy", "a.yaml:2:1",
                                                "5", "name, path", "remove it"));
  EXPECT_EQ(error({}), message_of("unknown key 'name' in strategy", "a.yaml:1:1", "flat",
                                  "no keys: it has no options", "remove it"));
  EXPECT_EQ(error({"name", "bucket_mb"}), "no error");
}

TEST(ReadOptions, AKeyAtTheTopHasNoSection) {
  std::string name;
  const ErrorText error = test::error_text_of<ConfigError>([&] {
    read_options(parse_yaml("nmae: x\n", "a.yaml"), "",
                 [&](Options& o) { o.option("name", &name, "a name"); });
  });
  EXPECT_EQ(error.what, "unknown key 'nmae'");
}

constexpr const char* kSteps = "integer, 1 to 1000000 (measured steps)";

struct Wrong {
  const char* text;
  std::string key;
  std::string where, got, expected, hint = kGeneralHint;
};

TEST(ReadOptions, WrongTypes) {
  for (const Wrong& wrong :
       {Wrong{"steps: ten\n", "steps", "1:8", "ten", kSteps},
        {"steps: [1, 2]\n", "steps", "1:8", "the list [1, 2]", kSteps},
        {"steps: \"5\"\n", "steps", "1:8", "\"5\" (text, because it is quoted)", kSteps,
         "remove the quotes"},
        {"pin: true\nsteps:\n", "steps", "2:1", "no value", kSteps,
         "give it a value, or remove the line"},
        {"pin: yes\n", "pin", "1:6", "yes", "true or false (ranks to cores)", "write true"},
        {"bucket_mb: 5 MB\n", "bucket_mb", "1:12", "5 MB",
         "number, >= 0.001 (size of a bucket in MB)"},
        {"interface: 5\n", "interface", "1:12", "5", "text (network interface)",
         "quote it to make it text: \"5\""},
        {"path: {a: b}\n", "path", "1:7", "the mapping {a: b}", "list of texts (files)"},
        {"sizes: [1, 2.5]\n", "sizes[1]", "1:12", "2.5", "list of integers, <= 100"}}) {
    EXPECT_EQ(error_of(wrong.text),
              message_of("'" + wrong.key + "' in strategy has the wrong type",
                         "a.yaml:" + wrong.where, wrong.got, wrong.expected, wrong.hint));
  }
}

TEST(ReadOptions, IntegersThatAreNone) {
  const auto hint = [](const std::string& value) {
    const std::string error = error_of("steps: " + value + "\n");
    EXPECT_THAT(error, StartsWith("'steps' in strategy has the wrong type")) << value;
    const auto at = error.find("hint: ");
    return at == std::string::npos ? "" : error.substr(at + 6);
  };
  EXPECT_EQ(hint("10_000"), "write 10000");
  EXPECT_EQ(hint("2.0"), "write 2");
  EXPECT_EQ(hint("1.5"), kGeneralHint);
  EXPECT_EQ(hint("1.55e1"), kGeneralHint);
  EXPECT_EQ(hint("0x1g"), kGeneralHint);
  EXPECT_EQ(hint(".nan"), kGeneralHint);
}

TEST(ReadOptions, AnIntegerThatYamlsVersionsReadDifferently) {
  EXPECT_EQ(
      error_of("steps: 010\n"),
      message_of("'steps' in strategy can be read as two numbers", "a.yaml:1:8", "010", kSteps,
                 "YAML 1.1 takes digits after a zero for octal, YAML 1.2 for decimal: "
                 "leave the zero out"));
  EXPECT_THAT(error_of("bucket_mb: -007\n"), HasSubstr("can be read as two numbers"));
  EXPECT_THAT(error_of("steps: '010'\n"), HasSubstr("remove the quotes"));
  EXPECT_THAT(error_of("steps: '1,000'\n"), Not(HasSubstr("remove the quotes"))) << "still text";
  EXPECT_EQ(error_of("steps: 0x10\n"), "no error");
  EXPECT_EQ(error_of("steps: +5\n"), "no error");
}

TEST(ReadOptions, OutOfRange) {
  EXPECT_EQ(error_of("steps: 0\n"), message_of("'steps' in strategy is out of range", "a.yaml:1:8",
                                               "0", kSteps, kGeneralHint));
  EXPECT_EQ(error_of("betas: [0.9, 1.5]\n"),
            message_of("'betas[1]' in strategy is out of range", "a.yaml:1:14", "1.5",
                       "list of numbers, 0 to 1 (decay rates)", kGeneralHint));
  for (const std::string value : {"99999999999999999999", "0xffffffffffffffff", "1e30"}) {
    EXPECT_EQ(error_of("steps: " + value + "\n"),
              message_of("'steps' in strategy is out of range", "a.yaml:1:8", value, kSteps,
                         "integers have 64 bits, those with an exponent 53"));
  }
}

TEST(ReadOptions, NumbersMustBeFinite) {
  for (const std::string value : {".nan", ".inf", "-.inf", "1e999", "1e-999"}) {
    EXPECT_EQ(error_of("bucket_mb: " + value + "\n"),
              message_of("'bucket_mb' in strategy must be a finite number", "a.yaml:1:12", value,
                         "number, >= 0.001 (size of a bucket in MB)", kGeneralHint));
  }
}

TEST(ReadOptions, OneOf) {
  EXPECT_EQ(error_of("algorithm: Rign\n"),
            message_of("'algorithm' in strategy cannot be 'Rign'", "a.yaml:1:12", "Rign",
                       "one of ring, halving (of the all-reduce)", "did you mean 'ring'?"));
}

TEST(ReadOptions, NodesThatAreNoMapping) {
  EXPECT_EQ(error_of("schedule: cosine\n"),
            message_of("strategy.schedule must be a mapping", "a.yaml:1:11", "cosine",
                       "a mapping with keys min_lr", "write `key: value` lines"));
  std::string name;
  const std::string error = test::error_of<ConfigError>([&] {
    read_options(parse_yaml("cosine", "a.yaml"), "schedule",
                 [&](Options& o) { o.option("name", &name, "a name"); });
  });
  EXPECT_EQ(error, message_of("schedule must be a mapping", "a.yaml:1:1", "cosine",
                              "a mapping with keys name", "write {name: cosine}"));
}

TEST(ReadOptions, DeclaringAKeyTwiceIsABug) {
  bool value = false;
  const auto twice = [&](Options& o) {
    o.option("pin", &value, "");
    o.option("pin", &value, "");
  };
  EXPECT_THROW(read_options({}, "strategy", twice), std::logic_error);
}

TEST(WriteOptions, ReadsBackAsTheSameValues) {
  Sample sample;
  sample.pin = false;
  sample.steps = 1'000'000;
  sample.bucket_mb = 0.1;
  sample.interface = "true";
  sample.betas = {1.0 / 3.0, 1e-8};
  sample.path = {"a, b: c", "null", "", "-1e5", "Größe", "# no comment"};
  sample.min_lr = 1.5e-300;
  const std::string yaml = to_yaml(write_options(sample.visitor()));

  Sample back = read(yaml);
  EXPECT_EQ(back.pin, sample.pin);
  EXPECT_EQ(back.steps, sample.steps);
  EXPECT_EQ(back.bucket_mb, sample.bucket_mb);
  EXPECT_EQ(back.interface, sample.interface);
  EXPECT_EQ(back.betas, sample.betas);
  EXPECT_EQ(back.path, sample.path);
  EXPECT_EQ(back.min_lr, sample.min_lr);
  EXPECT_EQ(to_yaml(write_options(back.visitor())), yaml);
}

TEST(WriteOptions, WritesWhatPeopleWrite) {
  Sample sample;
  EXPECT_EQ(to_yaml(write_options(sample.visitor())),
            "pin: true\n"
            "steps: 10\n"
            "bucket_mb: 25\n"
            "algorithm: ring\n"
            "interface: \"\"\n"
            "betas: [0.9, 0.95]\n"
            "sizes: []\n"
            "path: []\n"
            "schedule:\n"
            "  min_lr: 1e-8\n");
}

TEST(ListOptions, FlattensAndShowsDefaultsAndLimits) {
  Sample sample;
  std::vector<std::string> rows;
  for (const auto& info : list_options(sample.visitor())) {
    rows.push_back(info.key + " | " + info.type + " | " + info.default_value + " | " +
                   info.allowed + " | " + info.help);
  }
  EXPECT_THAT(rows, ElementsAre("pin | true or false | true |  | ranks to cores",
                                "steps | integer | 10 | 1 to 1000000 | measured steps",
                                "bucket_mb | number | 25 | >= 0.001 | size of a bucket in MB",
                                "algorithm | text | ring | ring, halving | of the all-reduce",
                                "interface | text | \"\" |  | network interface",
                                "betas | list of numbers | [0.9, 0.95] | 0 to 1 | decay rates",
                                "sizes | list of integers | [] | <= 100 | ",
                                "path | list of texts | [] |  | files",
                                "schedule.min_lr | number | 1e-8 | >= 0 | last learning rate"));
}

TEST(Nearest, FindsTyposAndNothingElse) {
  const std::vector<std::string> names = {"naive", "flat", "bucketed", "overlap"};
  EXPECT_EQ(nearest("bukceted", names), "bucketed");
  EXPECT_EQ(nearest("Flat", names), "flat");
  EXPECT_EQ(nearest("falt", names), "flat");
  EXPECT_EQ(nearest("naiv", names), "naive");
  EXPECT_EQ(nearest("ovrlapp", names), "overlap");
  EXPECT_EQ(nearest("ring", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("abcd", {"abxy"}), "");            // 2 edits of 4 letters
  EXPECT_EQ(nearest("abcdef", {"abcdxy"}), "abcdxy");  // 2 of 6
}

}  // namespace
}  // namespace ddprun
