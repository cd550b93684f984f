// Loads libddprun_mpi, the backend over Open MPI, which is built where MPI is.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <string>

#include "ddprun/base/own_library.h"
#include "ddprun/comm/group/comm_config.h"

// The command, which asks for MPI but makes no backend, is spared c10d's headers.
namespace c10d {
class Backend;
}

namespace ddprun {

/// Raised whenever MpiDescriptor or CommConfig changes shape.
inline constexpr std::uint32_t kMpiApiVersion = 2;

/// The C symbol `ddprun_mpi_v1` of the library.
struct MpiDescriptor {
  OwnLibrary library;
  /// "Open MPI v4.1.4": what it is linked with. It starts nothing.
  std::string (*version)();
  /// The ranks of MPI_COMM_WORLD, which must be those of the group, by number. Starts MPI in this
  /// process. All ranks call it. Throws CommError.
  c10::intrusive_ptr<c10d::Backend> (*make)(int rank, int world_size, const CommConfig& config);
  /// finish_mpi().
  void (*finish)();
};

/// Loads the library, for good, and checks it. MPI is not started. Throws ConfigError if it was not
/// built, cannot be loaded, or was built differently.
const MpiDescriptor& load_mpi_library();

/// Ends MPI in this process if a run started it, as mpirun demands of a process that ends. It waits
/// for the other ranks, but not where a run failed.
void finish_mpi();

/// Throws ConfigError unless this process can be a rank over MPI: the library is there, and a
/// launcher that starts MPI's processes (mpirun, or Slurm's srun) has started it. `where` is the
/// place of world.backend in the file.
void check_mpi(const std::string& where);

}  // namespace ddprun
