// The handshake with libddprun_mpi, and who may ask for it.
#include "ddprun/comm/launch/mpi_library.h"

#include <filesystem>

#include "ddprun/base/build_id.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/launch/launch_environment.h"

namespace ddprun {

namespace {

constexpr const char* kName = "mpi";
const MpiDescriptor* loaded = nullptr;

}  // namespace

const MpiDescriptor& load_mpi_library() {
  const std::filesystem::path file = own_library_file(kName);
  if (!std::filesystem::exists(file)) {
    throw ConfigError({.what = "this ddprun was built without MPI",
                       .where = "world.backend",
                       .got = "no " + file.string(),
                       .expected = "another backend",
                       .hint = "install Open MPI (Debian: libopenmpi-dev, openmpi-bin), then "
                               "configure and build again"});
  }
  loaded = static_cast<const MpiDescriptor*>(
      load_own_library(file, "ddprun_mpi_v1", "the library of backend mpi", "backend mpi",
                       {sizeof(MpiDescriptor), kMpiApiVersion, DDPRUN_BUILD_ID, kName}));
  return *loaded;
}

void finish_mpi() {
  if (loaded != nullptr) loaded->finish();
}

void check_mpi(const std::string& where) {
  with_place(where, load_mpi_library);
  const auto launch = rank_info_from_environment();
  if (launch && (launch->launcher == "openmpi" || launch->launcher == "slurm")) return;
  throw ConfigError({.what = "backend mpi joins ranks that MPI's launcher started",
                     .where = where,
                     .got = launch ? "a launch of " + launch->launcher : "a run without a launcher",
                     .expected = "a launch of Open MPI's mpirun, or of Slurm's srun with it",
                     .hint = "mpirun -n 2 --bind-to none ddprun FILE.yaml"});
}

}  // namespace ddprun
