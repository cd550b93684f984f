// Runs that start together, as those of a job array do, in a folder that none of them found.
#include <deque>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(AtOnce, RunsInOneNewFolderAllSucceed) {
  constexpr int kRuns = 20;
  TemporaryFolder shared;
  const std::string output = shared.path() / "new/results";
  std::deque<TemporaryFolder> folders(kRuns);  // each run's own: its words
  std::deque<DdprunProcess> runs;
  for (const TemporaryFolder& folder : folders) {
    folder.write("job.yaml", tiny_experiment());
    runs.emplace_back(
        folder, std::vector<std::string>{"job.yaml", "--output", output, "--set", "world.size=1"});
  }
  for (DdprunProcess& run : runs) EXPECT_EQ(run.wait(300), 0) << run.err();
  int results = 0;
  for (const auto& entry : std::filesystem::directory_iterator(output + "/job")) {
    if (!entry.is_symlink()) results += std::filesystem::exists(entry.path() / "result.json");
  }
  EXPECT_EQ(results, kRuns);
}

}  // namespace
}  // namespace ddprun::test
