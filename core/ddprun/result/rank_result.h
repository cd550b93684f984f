// What one rank measured and proved: samples, proof, and their JSON form, which travels to rank 0
// and into result.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/comm/collective.h"
#include "ddprun/device/device.h"
#include "ddprun/result/check.h"
#include "ddprun/result/sample.h"

namespace ddprun {

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
  /// Warm-up included.
  std::vector<Sample> samples;
  /// Timeline of the last step.
  std::vector<CollectiveRecord> last_step;
  std::int64_t last_step_begin_ns = 0;
  /// Of the training thread, one after another; an update lies within `synchronize`.
  std::vector<PhaseTime> last_step_phases = {};
  std::vector<Check> checks;
  std::uint64_t parameter_hash = 0;
  std::int64_t peak_resident_bytes = 0;
  std::vector<int> cores;
  int threads = 0;
  /// That carried the collectives, and why: "shm (asked for)".
  std::string backend;
  /// Seconds from launch to the first completed step.
  double first_step_done_s = 0;
  /// Facts of a device that is not the CPU, and its allocator over the measured steps.
  std::vector<std::pair<std::string, std::string>> device = {};
  DeviceMemory device_memory = {};
  /// Device::topology()
  std::string topology = {};
  /// As its maker calls it; empty: the CPU.
  std::string device_name = {};
  /// What the matrix products compute in: float32, tf32, bfloat16 ...
  std::string matmul_dtype = {};
  /// Of set-up, and of the phases of the last warm-up step; empty if there was none.
  std::vector<PhaseMemory> memory_phases = {};
  /// Its file in the result folder; empty: none was asked for.
  std::string memory_snapshot = {};
};

/// Round trips without loss; the hash is hexadecimal text.
nlohmann::json to_json(const RankResult& result);
/// `kind`: of the experiment, whose quantities the samples have. Throws Error if a field is missing
/// or of another type.
RankResult rank_result_from_json(const nlohmann::json& json, const ExperimentKind& kind);

}  // namespace ddprun
