// The backend mpi in launches of mpirun, and what it says where there is none.
#include "ddprun/base/own_library.h"
#include "support/ddprun_command.h"
#include "support/joined_launch.h"

namespace ddprun::test {
namespace {

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(own_library_file("mpi"))) {
      GTEST_SKIP() << "backend mpi is not built: no MPI was found";
    }
    if (std::system("command -v mpirun >/dev/null") != 0) {
      GTEST_SKIP() << "there is no mpirun (Debian: openmpi-bin)";
    }
  }

  /// `ranks` ranks of ddprun, as a launch of mpirun. Rank 0 reports. `port`: where they meet;
  /// empty: where the launch's own id says.
  std::unique_ptr<DdprunProcess> start(int ranks, const Words& arguments) {
    return start(folder_, ranks, arguments, std::to_string(free_port()));
  }
  static std::unique_ptr<DdprunProcess> start(const TemporaryFolder& folder, int ranks,
                                              const Words& arguments, const std::string& port,
                                              Words environment = {}) {
    environment.insert(environment.end(),
                       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    if (!port.empty()) environment.push_back("MASTER_PORT=" + port);
    return std::make_unique<DdprunProcess>(
        folder, arguments, environment,
        Words{"/usr/bin/env", "mpirun", "-n", std::to_string(ranks), "--oversubscribe", "--bind-to",
              "none"});
  }

  /// All rows of that experiment are right on `ranks` ranks. Returns its result.
  json proved(int ranks, const std::string& yaml, std::size_t rows) {
    folder_.write("all.yaml", yaml);
    const auto run = start(ranks, {"all.yaml"});
    EXPECT_EQ(run->wait(120), 0) << run->err();
    json result = result_of(folder_, "all");
    EXPECT_EQ(result["rows"].size(), rows);
    for (const json& row : result["rows"]) {
      EXPECT_EQ(row["status"], "ok") << row["label"] << row["reason"];
      EXPECT_EQ(row["statistics"].value("wrong", 0), 0) << row["label"];
    }
    return result;
  }
  /// Of Open MPI's own folder below TMPDIR: two mpirun that make it at once fail.
  static std::string own_files(const TemporaryFolder& folder) {
    return "TMPDIR=" + folder.path().string();
  }

  TemporaryFolder folder_;
};

const std::string kCollectives =
    "experiment: collectives\n"
    "world: {backend: mpi, timeout_s: 30}\n"
    "collectives: {bytes: 40000}\n"
    "repeat: {warmup: 1, count: 4, seconds: 5}\n";

TEST_F(Mpi, TwoLaunchesOnOneHostDoNotMeet) {
  const TemporaryFolder other_folder;
  folder_.write("one.yaml", tiny_experiment());
  other_folder.write("other.yaml", tiny_experiment("", /*steps=*/4));
  const auto one = start(folder_, 2, {"one.yaml"}, "", {own_files(folder_)});
  const auto other = start(other_folder, 2, {"other.yaml"}, "", {own_files(other_folder)});
  for (DdprunProcess* const launch : {one.get(), other.get()}) {
    EXPECT_EQ(launch->wait(120), 0) << launch->out() << launch->err();
  }
}

TEST_F(Mpi, EveryCollectiveIsRightBesideTheOtherBackends) {
  // A barrier has no size.
  const json result = proved(3,
                             "experiment: collectives\n"
                             "world: {timeout_s: 30}\n"
                             "collectives: {}\n"
                             "repeat: {warmup: 1, count: 4, seconds: 5}\n"
                             "sweep:\n"
                             "  world.backend: [gloo, shm, mpi]\n"
                             "  collectives.collective: [all_reduce, reduce_scatter, all_gather, "
                             "broadcast, barrier]\n",
                             15);
  EXPECT_EQ(result["rows"][10]["ranks"][0]["backend"], "mpi (asked for)");
}

TEST_F(Mpi, ReducesEveryTypeThatItHas) {
  proved(2,
         kCollectives +
             "sweep:\n"
             "  collectives.in_place: [true, false]\n"
             "  collectives.collective: [all_reduce, reduce_scatter]\n"
             "  collectives.dtype: [float32, float64, int8, uint8, int32, int64]\n"
             "  collectives.op: [sum, max]\n",
         48);
}

TEST_F(Mpi, DividesOnceForAMeanAndMovesWhatItCannotAdd) {
  proved(3,
         kCollectives +
             "sweep:\n"
             "  collectives:\n"
             "    - {op: avg}\n"
             "    - {op: avg, dtype: float64}\n"
             "    - {op: avg, collective: reduce_scatter}\n"
             "    - {dtype: bfloat16, collective: all_gather}\n"
             "    - {dtype: bfloat16, collective: all_gather, in_place: false}\n"
             "    - {dtype: float16, collective: broadcast}\n",
         6);
}

TEST_F(Mpi, TrainsAsGlooDoes) {
  const json rows = proved(2,
                           tiny_experiment("sweep:\n"
                                           "  world.backend: [gloo, mpi]\n"
                                           "  strategy: [flat, bucketed, torch_ddp]\n"),
                           6)["rows"];
  const auto losses = [&rows](std::size_t row) {
    return rows[row]["ranks"][0]["samples"]["loss"].get<std::vector<double>>();
  };
  for (std::size_t row : {3, 4, 5})
    EXPECT_EQ(losses(row), losses(row - 3)) << "two addends have one sum";
}

TEST_F(Mpi, GradientsThatItCannotAddAreRefused) {
  folder_.write("one.yaml", tiny_experiment());
  const auto refusal = [this](const std::string& setting) {
    return refusal_of(folder_, {"one.yaml", "--set", "world.backend=mpi", "--set", setting});
  };
  EXPECT_THAT(refusal("precision={name: fp32, reduce_dtype: bfloat16}"),
              AllOf(HasSubstr("backend mpi has no reduction of bfloat16\n  where: "),
                    HasSubstr("it could run with strategy local_sgd or powersgd, or precision ")));
  EXPECT_THAT(refusal("sweep={strategy: [torch_ddp], precision: [bf16_true], "
                      "model.kernels: [reference]}"),
              HasSubstr("backend mpi has no reduction of bfloat16"));
  EXPECT_THAT(refusal("precision=fp32"), HasSubstr("joins ranks that MPI's launcher started"));
}

TEST_F(Mpi, ARankThatIsStoppedIsGivenUpInTime) {
  folder_.write("long.yaml", tiny_experiment({}, 10'000'000));
  const auto run =
      start(2, {"long.yaml", "-v", "--set", "world.backend=mpi", "--set", "world.timeout_s=2"});
  ASSERT_TRUE(run->says(": step ")) << run->err();
  pid_t second = -1;
  for (const pid_t pid : run->ranks()) {
    const auto environ = read_file("/proc/" + std::to_string(pid) + "/environ");
    if (environ.find("OMPI_COMM_WORLD_RANK=1") != std::string::npos) second = pid;
  }
  ASSERT_GT(second, 0);
  kill(second, SIGSTOP);
  ASSERT_TRUE(run->says("no end within 2 s: timed out", in_time(2))) << run->err();
  kill(second, SIGCONT);
  EXPECT_THAT(run->wait(30), testing::Optional(testing::Ne(0))) << run->err();
}

TEST_F(Mpi, ACallThatDoesNotReturnEndsTheLaunchInTime) {
  const std::vector<std::string> calls = {"MPI_Init_thread", "MPI_Comm_dup", "MPI_Comm_free",
                                          "MPI_Finalize"};
  std::vector<TemporaryFolder> folders(calls.size());
  std::vector<std::unique_ptr<DdprunProcess>> runs;  // they wait together
  for (std::size_t i = 0; i < calls.size(); ++i) {
    folders[i].write("one.yaml", kCollectives);
    runs.push_back(
        start(folders[i], 2, {"one.yaml", "--set", "world.timeout_s=3"}, "",
              {own_files(folders[i]),
               "LD_PRELOAD=" DDPRUN_BUILD_DIR "/tests/plugins/hanging_" + calls[i] + ".so"}));
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string& call = calls[i];
    const auto& run = runs[i];
    EXPECT_THAT(run->wait(3 + 30), testing::Optional(testing::Ne(0))) << call << run->err();
    EXPECT_THAT(run->err(),
                AllOf(HasSubstr("error: a call of MPI does not return\n  where: " + call),
                      HasSubstr("got: no answer within 3.0 s")));
  }
}

TEST_F(Mpi, WithoutMpirunIsARowThatIsNotHere) {
  folder_.write("two.yaml", kCollectives + "sweep: {world.backend: [shm, mpi]}\n");
  const CommandResult run = must_run(folder_, {"two.yaml", "--set", "world.size=2"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("not here: "),
                             HasSubstr("backend mpi joins ranks that MPI's launcher started"),
                             HasSubstr("proved in 1 of 1 row")));
  EXPECT_THAT(refusal_of(folder_, {"two.yaml", "--set", "world.size=2", "--set", "sweep={}"}),
              AllOf(HasSubstr("error: "), HasSubstr("mpirun -n 2 --bind-to none ddprun")));
}

TEST_F(Mpi, RanksThatAnotherLauncherStartedAreRefused) {
  Launch launch(1, {}, kCollectives);
  launch.start_all({"one.yaml"});
  launch.expect_all(2, HasSubstr("a launch of torchrun"), 30);
}

}  // namespace
}  // namespace ddprun::test
