// What a rank of an experiment will hold and send, and how long a step takes on paper: predicted
// before anything runs.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ddprun/comm/group/link.h"
#include "ddprun/comm/store/collective_kind.h"
#include "ddprun/memory/memory_category.h"

namespace ddprun {

/// The memory of tensors at the peak of one phase.
struct PhaseAccount {
  std::string phase;
  MemoryBytes at_peak = {};
  friend bool operator==(const PhaseAccount&, const PhaseAccount&) = default;
};

struct ComputeWork {
  double operations = 0;  ///< of matrix products
  double bytes = 0;       ///< that operators read and write, each tensor of a call once

  friend ComputeWork operator-(const ComputeWork& a, const ComputeWork& b) {
    return {a.operations - b.operations, a.bytes - b.bytes};
  }
  friend bool operator==(const ComputeWork&, const ComputeWork&) = default;
};

/// Collectives of one step, one behind the other, that are alike.
struct CollectiveAccount {
  CollectiveKind kind = CollectiveKind::barrier;
  std::int64_t bytes = 0;  ///< payload of one, as CollectiveRecord::bytes
  int ranks = 1;           ///< of the group that makes it
  int ranks_per_host = 1;  ///< of these, on one host
  std::int64_t count = 0;
  /// What of the step the rank has done when it enqueues them, and when it needs them.
  ComputeWork enqueued = {}, awaited = {};

  /// Whether all but their number is equal.
  bool like(CollectiveAccount other) const {
    other.count = count;
    return *this == other;
  }
  friend bool operator==(const CollectiveAccount&, const CollectiveAccount&) = default;
};

/// Of the rank that holds most.
struct Account {
  int ranks = 1;
  int rank = 0;
  /// Set-up, and the phases of a step that others came before, in the order of their first begin.
  std::vector<PhaseAccount> phases = {};
  std::vector<CollectiveAccount> collectives = {};  ///< in the order of enqueueing
  ComputeWork work = {};      ///< of a step, what is computed again included (hardware FLOPs)
  std::string products = {};  ///< the format of their operands, "bfloat16"
  std::int64_t tokens = 0;    ///< of the rank in a step
  /// Why the memory is not known, one sentence; empty: it is.
  std::string unknown = {};

  /// The phase with the highest peak; null: memory is not known. `steps_alone`: without set-up,
  /// which builds the model.
  const PhaseAccount* peak(bool steps_alone = false) const;
  /// Bytes that the rank sends in a step if each algorithm is bandwidth-optimal (wire_bytes()).
  double wire_bytes() const;
  friend bool operator==(const Account&, const Account&) = default;
};

/// Writing and reading loses nothing.
nlohmann::json to_json(const Account& account);
/// Throws Error if a field is missing or of another type.
Account account_from_json(const nlohmann::json& json);

/// What a rank computes with, and what joins it to others.
struct RankSpeed {
  double operations_per_s = 0;  ///< of products
  double bytes_per_s =
      std::numeric_limits<double>::infinity();  ///< of memory; else it takes no time
  Links links = {};

  double seconds(const ComputeWork& work) const {
    return work.operations / operations_per_s + work.bytes / bytes_per_s;
  }
};

/// Of one rank.
struct StepTime {
  double computing_s = 0;
  double communication_s = 0;  ///< of all collectives, one after another
  double exposed_s = 0;        ///< what the rank waits for them
  double step_s() const { return computing_s + exposed_s; }
};

/// Account::work takes its operations and then its bytes at their rates. Collectives run one at a
/// time in the order of enqueueing, each from the moment when it is enqueued and the one
/// before is done; the rank goes on computing until it needs one that is not.
StepTime step_time(const Account& account, const RankSpeed& speed);

}  // namespace ddprun
