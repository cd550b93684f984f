// The one C symbol through which the core finds this library.
#include <fmt/format.h>

#include "ddprun/base/build_id.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/mpi/mpi_backend.h"
#include "ddprun/mpi/mpi_session.h"

namespace ddprun::mpi {

namespace {

/// Refuses a process that MPI counts otherwise than the launch does: one that MPI did not start is
/// alone in MPI's world.
void check_place(const Session& session, int rank, int world_size, const std::string& where) {
  if (session.stuck()) {
    throw CommError({.what = "MPI cannot be used again in this launch",
                     .where = where,
                     .got = "a collective of an earlier run that never ended",
                     .expected = "no such run before this one",
                     .hint = "run this row alone, in a launch of its own"});
  }
  if (session.rank() == rank && session.size() == world_size) return;
  throw CommError({.what = "MPI counts other ranks than the launcher",
                   .where = where,
                   .got = fmt::format("rank {} of {} in MPI", session.rank(), session.size()),
                   .expected = "the same number and size",
                   .hint = "mpirun of the MPI that ddprun was built with must start the ranks, or "
                           "srun with --mpi=pmix"});
}

c10::intrusive_ptr<c10d::Backend> make(int rank, int world_size, const CommConfig& config) {
  const std::string where = fmt::format("rank {} of {}", rank, world_size);
  try {
    Session& session = Session::get(to_milliseconds(config.timeout_s));
    check_place(session, rank, world_size, where);
    return c10::make_intrusive<MpiBackend>(session, config);
  } catch (const std::exception& failure) {
    throw_comm_error(failure, {.what = "MPI could not connect this rank to the others",
                               .where = where,
                               .expected = "the ranks of one launch of mpirun"});
  }
}

}  // namespace

}  // namespace ddprun::mpi

extern "C" __attribute__((visibility("default"))) const ddprun::MpiDescriptor ddprun_mpi_v1;
const ddprun::MpiDescriptor ddprun_mpi_v1 = {
    {sizeof(ddprun::MpiDescriptor), ddprun::kMpiApiVersion, DDPRUN_BUILD_ID, "mpi"},
    ddprun::mpi::version,
    ddprun::mpi::make,
    ddprun::mpi::Session::finish};
