// What a rank of an experiment will hold and send: predicted before anything runs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ddprun/comm/store/collective_kind.h"
#include "ddprun/memory/memory_bytes.h"

namespace ddprun {

/// The memory of tensors at the peak of one phase.
struct PhaseAccount {
  std::string phase;
  MemoryBytes at_peak = {};
  friend bool operator==(const PhaseAccount&, const PhaseAccount&) = default;
};

/// Collectives of one step that are alike.
struct CollectiveAccount {
  CollectiveKind kind = CollectiveKind::barrier;
  std::int64_t bytes = 0;  ///< payload of one, as CollectiveRecord::bytes
  int ranks = 1;           ///< of the group that makes it
  std::int64_t count = 0;  ///< in a step
  friend bool operator==(const CollectiveAccount&, const CollectiveAccount&) = default;
};

/// Of the rank that holds most.
struct Account {
  int ranks = 1;
  int rank = 0;
  /// Set-up, and the phases of a step that others came before, in the order of their first begin.
  std::vector<PhaseAccount> phases = {};
  std::vector<CollectiveAccount> collectives = {};
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

}  // namespace ddprun
