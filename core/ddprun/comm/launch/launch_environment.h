// A rank's place in a launch that another program made, as the environment tells it.
#pragma once

#include <optional>

#include "ddprun/comm/launch/rendezvous.h"

namespace ddprun {

/// Reads the variables of the launch that this process belongs to: torchrun's (RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE), Slurm's
/// (SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...), or those of Open MPI (OMPI_COMM_WORLD_RANK, ...),
/// MPICH and Intel MPI (PMI_RANK, MPI_LOCALRANKID, ...); nothing if none is there, or srun started
/// this process alone. DDPRUN_SECRET or the file that DDPRUN_SECRET_FILE names is the launch's
/// secret. Throws ConfigError naming the variable if one is missing or malformed, or rank >= world
/// size.
std::optional<RankInfo> rank_info_from_environment();

}  // namespace ddprun
