// A rank's place as the variables of launchers tell it, and what is wrong with them.
#include "ddprun/comm/launch/launch_environment.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "support/matchers.h"

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

/// The variables of launchers in this process's environment.
Variables launcher_variables() {
  Variables found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    for (const char* prefix :
         {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI",
          "MPI_LOCAL", "I_MPI_HYDRA_UUID", "DDPRUN_SECRET"}) {
      const std::size_t end = text.find('=');
      if (text.starts_with(prefix)) found[text.substr(0, end)] = text.substr(end + 1);
    }
  }
  return found;
}
/// Sets exactly these.
void set_launcher_variables(const Variables& variables) {
  for (const auto& [name, value] : launcher_variables()) ::unsetenv(name.c_str());
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

/// What rank_info_from_environment says when exactly these launcher variables are set.
std::optional<RankInfo> rank_info(const Variables& variables) {
  struct Restore {
    Variables before = launcher_variables();
    ~Restore() { set_launcher_variables(before); }
  } const restore;
  set_launcher_variables(variables);
  return rank_info_from_environment();
}

/// The error for these variables; fails the test if there is none.
ErrorText refusal(const Variables& variables) {
  return test::error_text_of<ConfigError>([&] { rank_info(variables); });
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.7"},
                             {"MASTER_PORT", "29501"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

/// Who started the rank, its numbers, and where rank 0 is.
auto place_of(const RankInfo& info) {
  return std::tuple(info.launcher, info.rank, info.world_size, info.local_rank, info.local_size,
                    info.master_addr, info.master_port);
}

TEST(RankInfo, NoLauncher) { EXPECT_FALSE(rank_info({}).has_value()); }

TEST(RankInfo, Torchrun) {
  const auto info = rank_info(kTorchrun).value();
  EXPECT_EQ(place_of(info), std::tuple("torchrun", 3, 4, 1, 2, "10.0.0.7", 29501));
  EXPECT_FALSE(info.agent_store);
  EXPECT_TRUE(rank_info(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"))->agent_store);
  EXPECT_FALSE(rank_info(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False"))->agent_store);
}

TEST(RankInfo, TheSecretOfALaunch) {
  const std::string secret = "0123456789abcdef";
  const std::string file = testing::TempDir() + "/secret";
  std::ofstream(file) << secret << "\n";
  EXPECT_EQ(rank_info(kTorchrun)->secret, "");
  EXPECT_EQ(rank_info(with(kTorchrun, "DDPRUN_SECRET", secret))->secret, secret);
  EXPECT_EQ(rank_info(with(kTorchrun, "DDPRUN_SECRET_FILE", file))->secret, secret);
  EXPECT_FALSE(rank_info({{"DDPRUN_SECRET", "x"}}).has_value());  // no launch is joined

  for (const std::string& short_one : {std::string(), std::string("password")}) {
    const ErrorText text = refusal(with(kTorchrun, "DDPRUN_SECRET", short_one));
    EXPECT_EQ(text.what, "the secret of this launch is too short");
    EXPECT_EQ(text.got, std::to_string(short_one.size()) + " bytes");  // and not what it is
  }
  EXPECT_EQ(refusal(with(kTorchrun, "DDPRUN_SECRET_FILE", "/no/file")).what,
            "the secret of this launch cannot be read");
  const Variables one = with(kTorchrun, "DDPRUN_SECRET", secret);
  EXPECT_EQ(refusal(with(one, "DDPRUN_SECRET_FILE", file)).what, "a launch has one secret");
  EXPECT_EQ(refusal(with(one, "TORCHELASTIC_USE_AGENT_STORE", "True")).what,
            "torchrun's own store asks for no secret");
}

TEST(RankInfo, KubernetesHasNoLocalRanks) {
  const auto info =
      rank_info(without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE")).value();
  EXPECT_EQ(info.local_rank, 0);
  EXPECT_EQ(info.local_size, 1);
}

TEST(RankInfo, ALoopbackMasterMeansThatAllRanksAreHere) {
  const auto info = rank_info({{"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "localhost"},
                               {"MASTER_PORT", "1234"}})
                        .value();
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_size, 2);
}

TEST(RankInfo, TorchrunErrorsNameTheVariable) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    const ErrorText text = refusal(without(kTorchrun, name));
    EXPECT_EQ(text.where, std::string("environment variable ") + name);
    EXPECT_EQ(text.got, "not set");
  }
  for (const char* value : {"x", "-1", "4", "1.5", "", " 1", "99999999999"}) {
    EXPECT_EQ(refusal(with(kTorchrun, "RANK", value)).where, "environment variable RANK") << value;
  }
  EXPECT_EQ(refusal(with(kTorchrun, "RANK", "4")).expected, "a whole number from 0 to 3");
  EXPECT_EQ(refusal(with(kTorchrun, "WORLD_SIZE", "0")).got, "'0'");
  EXPECT_EQ(refusal(with(kTorchrun, "LOCAL_RANK", "2")).expected, "a whole number from 0 to 1");
  EXPECT_EQ(refusal(with(kTorchrun, "MASTER_PORT", "65536")).where,
            "environment variable MASTER_PORT");
}

const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                          {"SLURM_STEP_NODELIST", "node[03-04]"},
                          {"SLURM_JOB_ID", "123456"}};

TEST(RankInfo, Slurm) {
  const auto info = rank_info(kSlurm).value();
  EXPECT_EQ(place_of(info), std::tuple("slurm", 5, 7, 1, 3, "node03", 15000 + 123456 % 15000));
  EXPECT_NE(rank_info(with(kSlurm, "SLURM_STEP_ID", "1"))->master_port, info.master_port)
      << "two srun of one script must not meet";
  EXPECT_EQ(rank_info(with(kSlurm, "MASTER_ADDR", "head"))->master_addr, "head");
  EXPECT_EQ(rank_info(with(kSlurm, "MASTER_PORT", "4000"))->master_port, 4000);
  EXPECT_EQ(rank_info(with(kSlurm, "SLURM_STEP_NODELIST", "a1,a2"))->master_addr, "a1");
  EXPECT_EQ(rank_info(with(kSlurm, "SLURM_STEP_NODELIST", "a1"))->master_addr, "a1");
  EXPECT_EQ(rank_info(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2(x3),1"))->local_size, 2);
}

TEST(RankInfo, SlurmErrorsNameTheVariable) {
  for (const char* name : {"SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST"}) {
    EXPECT_EQ(refusal(without(kSlurm, name)).where, std::string("environment variable ") + name);
  }
  for (const char* value : {"4", "x", "4(xx),3", "4(x1", "0,3"}) {
    EXPECT_EQ(refusal(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", value)).where,
              "environment variable SLURM_STEP_TASKS_PER_NODE")
        << value;
  }
  EXPECT_EQ(refusal(with(kSlurm, "SLURM_PROCID", "7")).where, "environment variable SLURM_PROCID");
}

TEST(RankInfo, ATaskOfSlurmThatIsAloneStartsItsRanks) {
  // The shell of `srun --pty bash`, of salloc (its step's number is no int), and sbatch's script.
  const Variables shell = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "7"}};
  const Variables of_a_step = with(shell, "SLURM_STEP_NUM_TASKS", "1");
  for (const Variables& alone :
       {shell, of_a_step, with(of_a_step, "SLURM_STEP_ID", "4294967290"),
        with(of_a_step, "SLURM_NTASKS", "8"), without(shell, "SLURM_NTASKS")}) {
    EXPECT_FALSE(rank_info(alone).has_value());
  }
  for (const char* name : {"SLURM_NTASKS", "SLURM_JOB_NUM_NODES"}) {
    const ErrorText text = refusal(with(shell, name, "4"));  // without srun
    EXPECT_EQ(text.where, "environment variable SLURM_STEP_NUM_TASKS");
    EXPECT_EQ(text.got, "not set");
    EXPECT_EQ(text.expected,
              std::string("ddprun as 4 tasks, which ") + name + " says; the job's script is one");
  }
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
/// As MPICH 4.0 and Intel MPI 2021 set them.
const Variables kHydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

TEST(RankInfo, Mpi) {
  for (const auto& [launcher, variables, local_rank, local_size] :
       {std::tuple("openmpi", kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        {"hydra", kHydra, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}) {
    const auto info = rank_info(variables).value();
    EXPECT_EQ(place_of(info), std::tuple(launcher, 1, 2, 1, 2, "127.0.0.1", 29500));
    const Variables two_hosts = with(with(variables, local_size, "1"), local_rank, "0");
    EXPECT_EQ(refusal(two_hosts).where, "environment variable MASTER_ADDR");
    EXPECT_EQ(rank_info(with(two_hosts, "MASTER_ADDR", "head"))->master_addr, "head");
    for (const auto& [name, value] : variables) {
      EXPECT_EQ(refusal(without(variables, name)).where, "environment variable " + name);
    }
  }
  // A task of a launcher that is not known is not alone.
  EXPECT_FALSE(rank_info({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).has_value());
}

TEST(RankInfo, TwoLaunchesOfMpiOnOneHostDoNotMeet) {
  std::set<int> ports;
  for (const char* job : {"2063990785", "2063990786", "prterun-host-12@1", "prterun-host-13@1"}) {
    for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "I_MPI_HYDRA_UUID"}) {
      const int port = rank_info(with(kOpenMpi, name, job))->master_port;
      EXPECT_GE(port, 15000);
      EXPECT_LT(port, 30000);
      ports.insert(port);
    }
  }
  EXPECT_EQ(ports.size(), 4U);
}

TEST(RankInfo, ALauncherWithinAJobOfSlurmComesFirst) {
  for (const auto& [launcher, variables] :
       {std::pair("torchrun", kTorchrun), {"openmpi", kOpenMpi}, {"hydra", kHydra}}) {
    Variables within = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "7"}};  // of sbatch's script
    within.insert(variables.begin(), variables.end());
    EXPECT_EQ(rank_info(within)->launcher, launcher);
  }
  // `srun --mpi=pmi2` sets what Hydra sets, but for a rank's place on its host.
  EXPECT_EQ(rank_info(with(with(kSlurm, "PMI_RANK", "5"), "PMI_SIZE", "7"))->launcher, "slurm");
}

}  // namespace
}  // namespace ddprun
