// What one rank measured and proved: samples, proof, and their JSON form, which travels to rank 0
// and into result.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/comm/collective.h"
#include "ddprun/device/device.h"

namespace ddprun {

/// One optimizer step on one rank. Milliseconds.
struct StepSample {
  std::int64_t step = 0;  ///< 0 is the first warm-up step
  bool warmup = false;
  double step_ms = 0;
  double forward_ms = 0;        ///< summed over micro-batches, loss included
  double backward_ms = 0;       ///< to the last gradient, summed over micro-batches
  double exposed_ms = 0;        ///< last gradient -> all gradients averaged, but for updates within
  double optimizer_ms = 0;      ///< clipping, update (wherever it ran), zeroing
  double communication_ms = 0;  ///< union of [start, end] of the step's collectives
  double overlapped_ms = 0;     ///< of that, the part before the last gradient
  double launch_delay_ms = 0;   ///< enqueue -> start, mean over the step's collectives
  double loss = 0;              ///< mean over this rank's micro-batches
  std::optional<double> gradient_norm = {};  ///< before clipping; computed for clipping alone
  bool skipped = false;  ///< the precision kept this step from updating the parameters
  std::int64_t collectives = 0;
  std::int64_t bytes = 0;  ///< payload
};

/// What the run proves (docs/measurement.md). Each check says in words what was compared.
struct Check {
  std::string name;    ///< "integer_gradients", "parameters_equal", "collectives_as_planned",
                       ///< "initial_parameters_equal"
  std::string status;  ///< passed | failed | control (not synchronized by design)
  std::string detail;  ///< "all 2,112,512 gradients equal the exact mean on 2 ranks"
};

/// The allocator in one phase: bytes at its end, peaks and retries within it. On the CPU there are
/// allocated_bytes and peak_allocated_bytes alone.
struct PhaseMemory {
  std::string phase;
  DeviceMemory memory;
};

/// A phase of a step as it ran. Nanoseconds of now_ns().
struct PhaseTime {
  std::string phase;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

struct RankResult {
  int rank = 0;
  std::vector<StepSample> samples;          ///< warm-up included
  std::vector<CollectiveRecord> last_step;  ///< timeline of the last step
  std::int64_t last_step_begin_ns = 0;
  std::vector<PhaseTime> last_step_phases = {};  ///< of the training thread, one after another; an
                                                 ///< update lies within `synchronize`
  std::vector<Check> checks;
  std::uint64_t parameter_hash = 0;
  std::int64_t peak_resident_bytes = 0;
  std::vector<int> cores;
  int threads = 0;
  std::string backend;           ///< that carried the collectives, and why: "shm (asked for)"
  double first_step_done_s = 0;  ///< seconds from launch to the first completed step
  /// Facts of a device that is not the CPU, and its allocator over the measured steps.
  std::vector<std::pair<std::string, std::string>> device = {};
  DeviceMemory device_memory = {};
  std::string topology = {};     ///< Device::topology()
  std::string device_name = {};  ///< as its maker calls it; empty: the CPU
  /// What the matrix products compute in: float32, tf32, bfloat16 ...
  std::string matmul_dtype = {};
  /// Of set-up, and of the phases of the last warm-up step; empty if there was none.
  std::vector<PhaseMemory> memory_phases = {};
  std::string memory_snapshot = {};  ///< its file in the result folder; empty: none was asked for
};

/// Round trips without loss: numbers that JSON lacks are the texts "nan", "inf" and "-inf", the
/// hash is hexadecimal text. Reading throws Error if a field is missing or of another type.
nlohmann::json to_json(const RankResult& result);
RankResult rank_result_from_json(const nlohmann::json& json);

}  // namespace ddprun
