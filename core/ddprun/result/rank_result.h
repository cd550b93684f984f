// What one rank measured and proved. Its JSON form goes to rank 0 and into result.json.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/comm/group/link_waits.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/host_load.h"
#include "ddprun/profile/operator_table.h"
#include "ddprun/profile/step_timeline.h"
#include "ddprun/result/check.h"
#include "ddprun/result/lost_updates.h"
#include "ddprun/result/sample.h"

namespace ddprun {

/// What the allocator counted in one phase: bytes at its end, peaks and retries within it. On the
/// CPU only allocated_bytes and peak_allocated_bytes are set.
struct PhaseMemory {
  std::string phase;
  DeviceMemory memory;
};

/// A rank's memory at the peak of a recorded step, by what it is. Bytes.
struct PeakMemory {
  /// Names and bytes.
  using Parts = std::vector<std::pair<std::string, std::int64_t>>;

  std::string phase = {};  ///< the peak's
  /// By the names of MemoryCategory, in its order: tensors alone, as the allocator counts them; and
  /// all, which are `resident_bytes` with `unexplained_bytes`.
  Parts tensors = {}, categories = {};
  std::int64_t unexplained_bytes = 0, resident_bytes = 0;
  /// What forward saves for backward in the model's first block, by operation, the largest first;
  /// and what it does not save, so that backward computes it again.
  Parts saved = {}, saved_again = {};
  std::int64_t tokens = 0;  ///< of one forward

  bool recorded() const { return !categories.empty(); }
};

/// A checkpoint of the run, or one that failed.
struct SavedCheckpoint {
  std::int64_t step = 0;  ///< steps that it has
  double seconds = 0;     ///< from its begin until it was whole on the disk
  /// Of these, how long training stood, outside of every time that is measured.
  double stall_seconds = 0;
  std::int64_t steps_beside = 0;  ///< steps that were made meanwhile
  std::int64_t bytes = 0;         ///< of all ranks' files; rank 0 knows
  std::string folder = {};        ///< empty: it was not saved
  std::string failure = {};       ///< why
};

struct WrittenText {
  std::int64_t step = 0;  ///< steps that were done
  std::string text = {};  ///< with its prompt, as a terminal can take it
};

struct RankResult {
  int rank = 0;
  /// The samples of all steps, warm-up included.
  std::vector<Sample> samples;
  /// Of the last measured steps, in order; of a kind that does not train the last one.
  std::vector<StepTimeline> timeline = {};
  /// What collectives take between the ranks when nothing else runs; empty: there are none.
  LinkCosts link = {};
  std::vector<Check> checks;
  /// Of tensors in the last step that was looked at, the largest share first; rank 0 has them.
  std::vector<LostUpdates> lost_updates = {};
  double checks_s = 0;  ///< seconds that they took, outside of every time that is measured
  std::uint64_t parameter_hash = 0;
  std::int64_t peak_resident_bytes = 0;
  /// Of what was resident at the end of the last measured sample, what counts for other processes
  /// that share it. The peak without it is the rank's share of the machine's memory.
  std::int64_t shared_resident_bytes = 0;
  std::vector<int> cores;
  int threads = 0;
  /// The backend that carried the collectives, and why: "shm (asked for)".
  std::string backend;
  /// Whether another backend was tried before, and refused.
  bool fell_back = false;
  /// What its figures depend on, as this rank observed it: processor, threads, backend, device.
  std::map<std::string, std::string> conditions = {};
  /// Equal on the ranks of one host (host_identity()).
  std::string host = {};
  /// Of the rank's cores, from its first measured sample to its last.
  HostLoad load = {};
  /// What a short product in float32 on the rank's threads gave, in 1e9 operations a second, before
  /// the run's set-up and after its last check. 0: on a GPU, there is none.
  double gflops_before = 0, gflops_after = 0;
  /// Seconds from launch to the first completed step.
  double first_step_done_s = 0;
  /// Facts of a device that is not the CPU, and its allocator over the measured steps.
  std::vector<std::pair<std::string, std::string>> device = {};
  DeviceMemory device_memory = {};
  std::string topology = {};
  /// Device::name(); empty for the CPU.
  std::string device_name = {};
  /// How products of bfloat16 matrices are computed: kernels::ProductPath.
  std::string products = {};
  /// What the matrix products compute in: float32, tf32, bfloat16 ...
  std::string matmul_dtype = {};
  /// What was observed and is no number, in the kind's order: a name and a text each.
  std::vector<std::pair<std::string, std::string>> observed = {};
  /// Of set-up and of the phases of the last warm-up step; empty: there was no such step.
  std::vector<PhaseMemory> memory_phases = {};
  /// Of profile.memory; not recorded on other ranks than 0.
  PeakMemory memory_peak = {};
  std::vector<SavedCheckpoint> checkpoints = {};
  std::vector<WrittenText> texts = {};
  /// Of profile.operators; not recorded on other ranks than 0.
  OperatorTable operators = {};
  /// The memory snapshot's file in the result folder; empty if none was asked for.
  std::string memory_snapshot = {};
};

/// Writing and reading loses nothing. The hash is hexadecimal text.
nlohmann::json to_json(const RankResult& result);
/// The samples have `kind`'s quantities. Throws Error if a field is missing or of another type.
RankResult rank_result_from_json(const nlohmann::json& json, const ExperimentKind& kind);

}  // namespace ddprun
