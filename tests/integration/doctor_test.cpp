// `ddprun doctor`, and that a CPU run loads nothing of CUDA.
#include <set>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(Doctor, SaysAsJsonWhatItFound) {
  TemporaryFolder folder;
  const CommandResult run = run_ddprun(folder, {"doctor", "--json"});
  const json report = json::parse(run.out);
  std::set<std::string> names;
  bool failed = false;
  for (const json& finding : report["findings"]) {
    names.insert(finding["name"]);
    EXPECT_FALSE(finding["text"].get<std::string>().empty()) << finding;
    EXPECT_EQ(finding["text"].get<std::string>().find('\n'), std::string::npos) << finding;
    failed = failed || finding["health"] == "failed";
    if (finding["name"] == "gloo all-reduce") {
      EXPECT_EQ(finding["health"], "ok") << finding;
      EXPECT_THAT(finding["text"].get<std::string>(), HasSubstr("1 MiB between 2 processes in"));
    }
  }
  EXPECT_EQ(run.status, failed ? 1 : 0);
  EXPECT_THAT(names, IsSupersetOf({"processor", "cores", "simd", "products", "memory", "huge pages",
                                   "memory copies", "matrix products", "host name",
                                   "gloo all-reduce", "shm all-reduce", "mpi", "strategy plugins",
                                   "precision plugins", "attention plugins"}));
}

TEST(Doctor, APluginThatDoesNotFitIsAFailure) {
  TemporaryFolder folder("plugins/broken.so", "no library");
  const CommandResult run =
      must_end(1, folder, {"doctor", "--plugin-path", (folder.path() / "plugins").string()});
  EXPECT_THAT(run.out, AllOf(HasSubstr("refused plugin"), HasSubstr("broken.so"),
                             HasSubstr("shm all-reduce"), Not(HasSubstr("\033"))));
}

TEST(Cuda, ARunOnTheCpuLoadsNothingOfIt) {
  TemporaryFolder folder("long.yaml", tiny_experiment({}, 1'000'000));
  DdprunProcess process(folder, {"long.yaml", "-v"});
  ASSERT_TRUE(process.trains(2)) << process.err();
  std::vector<pid_t> pids = process.ranks();
  pids.push_back(process.pid());
  for (const pid_t pid : pids) {
    const std::string maps = read_file("/proc/" + std::to_string(pid) + "/maps");
    EXPECT_THAT(maps, AllOf(HasSubstr("libtorch_cpu.so"), Not(HasSubstr("libtorch_cuda")),
                            Not(HasSubstr("libc10_cuda")), Not(HasSubstr("libddprun_cuda"))));
  }
}

}  // namespace
}  // namespace ddprun::test
