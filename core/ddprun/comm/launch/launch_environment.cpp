// Reads a rank's place from the variables of the launcher that started it: torchrun, Slurm, MPI.
#include "ddprun/comm/launch/launch_environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr int kDefaultPort = 29500;  // as torchrun's
/// So that nobody guesses it.
constexpr std::size_t kShortestSecret = 16;
constexpr const char* kSecretsAreMadeBy =
    "`openssl rand -hex 32 >FILE; chmod 600 FILE` makes one, for every rank";

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

constexpr const char* kHint = "torchrun, srun or mpirun sets it for the ranks that it starts";

/// `got`: nothing if the variable is missing.
[[noreturn]] void refuse(const std::string& name, const std::optional<std::string>& got,
                         const std::string& expected, const std::string& hint = kHint) {
  throw ConfigError({.what = got ? "a variable of the launcher is wrong"
                                 : "a variable of the launcher is missing",
                     .where = "environment variable " + name,
                     .got = got ? "'" + *got + "'" : "not set",
                     .expected = expected,
                     .hint = hint});
}

int parse(const std::string& name, const std::string& text, int min, int max) {
  const auto value = number_from<int>(text);
  if (value && *value >= min && *value <= max) return *value;
  const std::string upper =
      max == std::numeric_limits<int>::max() ? "" : " to " + std::to_string(max);
  refuse(name, text.empty() ? "(empty)" : text,
         "a whole number from " + std::to_string(min) + upper);
}

std::optional<int> number(const char* name, int min, int max = std::numeric_limits<int>::max()) {
  const auto text = variable(name);
  return text ? std::optional<int>(parse(name, *text, min, max)) : std::nullopt;
}

int required(const char* name, int min, int max = std::numeric_limits<int>::max()) {
  const auto value = number(name, min, max);
  if (!value) refuse(name, {}, "a whole number from " + std::to_string(min));
  return *value;
}

/// The variables of rank and size, the rank below the size.
void read_rank(RankInfo& info, const char* rank, const char* size) {
  info.world_size = required(size, 1);
  info.rank = required(rank, 0, info.world_size - 1);
}

void read_local_rank(RankInfo& info, const char* rank, const char* size) {
  info.local_size = required(size, 1, info.world_size);
  info.local_rank = required(rank, 0, info.local_size - 1);
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

RankInfo from_torchrun() {
  RankInfo info;
  info.launcher = "torchrun";
  read_rank(info, "RANK", "WORLD_SIZE");
  const auto address = variable("MASTER_ADDR");
  if (!address || address->empty()) refuse("MASTER_ADDR", {}, "the host of rank 0");
  info.master_addr = *address;
  info.master_port = required("MASTER_PORT", 1, 65535);
  info.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (variable("LOCAL_RANK") && variable("LOCAL_WORLD_SIZE")) {
    read_local_rank(info, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  } else if (is_loopback(info.master_addr)) {  // all ranks are on this host
    info.local_size = info.world_size;
    info.local_rank = number("LOCAL_RANK", 0, info.local_size - 1).value_or(info.rank);
  } else if (variable("LOCAL_RANK") || variable("LOCAL_WORLD_SIZE")) {
    refuse(variable("LOCAL_RANK") ? "LOCAL_WORLD_SIZE" : "LOCAL_RANK", {},
           "both or none of the two", "none means one rank a host, as Kubernetes starts them");
  }
  return info;
}

/// The first host of a Slurm list: "node[03-05,9],gpu1" -> "node03".
std::string first_host(const std::string& list) {
  const auto end = list.find_first_of("[,");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const auto digits_end = list.find_first_of("-,]", end + 1);
  return list.substr(0, end) + list.substr(end + 1, digits_end - end - 1);
}

/// Entry `node` of Slurm's list of tasks a node: "4(x2),3" is 4, 4, 3.
int tasks_on_node(const char* name, const std::string& list, int node) {
  for (const std::string& item : split_at(list, ',')) {
    const auto bracket = item.find("(x");
    const int tasks = parse(name, item.substr(0, bracket), 1, std::numeric_limits<int>::max());
    const int nodes =
        bracket == std::string::npos || item.back() != ')'
            ? 1
            : parse(name, item.substr(bracket + 2, item.size() - bracket - 3), 1, 1 << 20);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  refuse(name, list, "the number of tasks of each node, such as 4(x2),3");
}

/// Job ids of one host are near each other, and steps of a job begin at 0.
constexpr std::uint64_t kPortsBetweenSteps = 1009;

/// A port of the launch's own: two of them may share a host.
int port_of_job(std::uint64_t job) { return 15000 + static_cast<int>(job % 15000); }

/// Whether srun started this process among others. With one task there is nobody to join: the shell
/// of `srun --pty bash` or salloc, or the script of a job of one task, where ddprun starts the
/// ranks.
bool is_task_of_slurm() {
  if (!variable("SLURM_PROCID")) return false;
  if (const auto tasks = number("SLURM_STEP_NUM_TASKS", 1)) return *tasks > 1;
  // Only srun makes a step. The script of sbatch has what Slurm tells of the job.
  for (const char* name : {"SLURM_NTASKS", "SLURM_JOB_NUM_NODES"}) {
    if (const int tasks = number(name, 1).value_or(1); tasks > 1) {
      refuse("SLURM_STEP_NUM_TASKS", {},
             fmt::format("ddprun as {} tasks, which {} says; the job's script is one", tasks, name),
             "`srun ddprun ...` starts them; in a job of one task ddprun starts the ranks");
    }
  }
  return false;
}

RankInfo from_slurm() {
  RankInfo info;
  info.launcher = "slurm";
  read_rank(info, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  const char* layout = "SLURM_STEP_TASKS_PER_NODE";
  const auto tasks = variable(layout);
  if (!tasks) refuse(layout, {}, "the number of tasks of each node");
  info.local_size = tasks_on_node(layout, *tasks, number("SLURM_NODEID", 0).value_or(0));
  info.local_rank = required("SLURM_LOCALID", 0, info.local_size - 1);
  if (const auto address = variable("MASTER_ADDR")) {
    info.master_addr = *address;
  } else if (info.local_size < info.world_size) {
    const char* nodes = "SLURM_STEP_NODELIST";
    const auto list = variable(nodes);
    if (!list || list->empty()) refuse(nodes, {}, "the hosts of the job", "or set MASTER_ADDR");
    info.master_addr = first_host(*list);
  }
  const auto job = static_cast<std::uint64_t>(number("SLURM_JOB_ID", 0).value_or(0));
  const auto step = static_cast<std::uint64_t>(number("SLURM_STEP_ID", 0).value_or(0));
  info.master_port =
      number("MASTER_PORT", 1, 65535).value_or(port_of_job(job + kPortsBetweenSteps * step));
  return info;
}

/// By what Open MPI 5 or 4, or Intel MPI, calls the launch; MPICH has no name for it.
int port_of_mpi() {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "I_MPI_HYDRA_UUID"}) {
    const auto job = variable(name);
    if (job && !job->empty()) return port_of_job(hash64(*job));
  }
  return kDefaultPort;
}

/// The variables of a rank of MPI, in which Open MPI and the others differ.
struct NamesOfMpi {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};

constexpr NamesOfMpi kOpenMpi = {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
/// Of Hydra, the launcher of MPICH and Intel MPI.
constexpr NamesOfMpi kHydra = {"hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                               "MPI_LOCALNRANKS"};

RankInfo from_mpi(const NamesOfMpi& names) {
  RankInfo info;
  info.launcher = names.launcher;
  read_rank(info, names.rank, names.size);
  read_local_rank(info, names.local_rank, names.local_size);
  if (const auto address = variable("MASTER_ADDR")) {
    info.master_addr = *address;
  } else if (info.local_size < info.world_size) {
    refuse("MASTER_ADDR", {}, "the host of rank 0",
           "`mpirun -x MASTER_ADDR=host -x MASTER_PORT=port`; of MPICH and Intel MPI `-genv "
           "MASTER_ADDR host`");
  }
  info.master_port = number("MASTER_PORT", 1, 65535).value_or(port_of_mpi());
  return info;
}

/// What DDPRUN_SECRET says, or the file that DDPRUN_SECRET_FILE names; empty if neither is set.
/// Messages do not show it.
std::string secret_from_environment() {
  const auto text = variable("DDPRUN_SECRET");
  const auto file = variable("DDPRUN_SECRET_FILE");
  if (text && file) {
    throw ConfigError({.what = "a launch has one secret",
                       .where = "environment variables DDPRUN_SECRET and DDPRUN_SECRET_FILE",
                       .got = "both",
                       .expected = "one of them",
                       .hint = "unset the other"});
  }
  if (!text && !file) return {};
  const std::string where = text ? "environment variable DDPRUN_SECRET"
                                 : "the file that DDPRUN_SECRET_FILE names, " + *file;
  std::string secret;
  try {
    secret = text ? *text : read_whole(*file);
  } catch (const std::runtime_error& failure) {
    throw ConfigError({.what = "the secret of this launch cannot be read",
                       .where = where,
                       .got = failure.what(),
                       .expected = "a file that this user may read, on every host",
                       .hint = kSecretsAreMadeBy});
  }
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  if (secret.size() >= kShortestSecret) return secret;
  throw ConfigError({.what = "the secret of this launch is too short",
                     .where = where,
                     .got = std::to_string(secret.size()) + " bytes",
                     .expected = std::to_string(kShortestSecret) + " or more",
                     .hint = kSecretsAreMadeBy});
}

void add_secret(RankInfo& info) {
  info.secret = secret_from_environment();
  if (info.secret.empty() || !info.agent_store) return;
  throw ConfigError({.what = "torchrun's own store asks for no secret",
                     .where = "environment variables DDPRUN_SECRET, DDPRUN_SECRET_FILE",
                     .got = "a secret, and a store that torchrun's agent serves",
                     .expected = "a secret of a store that rank 0 serves, or none",
                     .hint =
                         "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun leaves the store "
                         "to rank 0"});
}

std::optional<RankInfo> place_from_environment() {
  if (variable("RANK") || variable("WORLD_SIZE")) return from_torchrun();
  // Within a job of Slurm these have its variables too.
  if (variable(kOpenMpi.rank) || variable(kOpenMpi.size)) return from_mpi(kOpenMpi);
  if (variable(kHydra.local_size)) return from_mpi(kHydra);
  if (is_task_of_slurm()) return from_slurm();
  // Of another launcher, by the protocol of MPICH: not alone, so not to be started alone.
  if (number(kHydra.size, 1).value_or(1) > 1) return from_mpi(kHydra);
  return std::nullopt;
}

}  // namespace

std::optional<RankInfo> rank_info_from_environment() {
  std::optional<RankInfo> info = place_from_environment();
  if (info) add_secret(*info);
  return info;
}

}  // namespace ddprun
