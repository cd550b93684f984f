// JSON of the plain structs of a result; for the sources that write or read result.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "ddprun/base/enum_names.h"
#include "ddprun/comm/collective.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/result/check.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

inline void to_json(nlohmann::json& out, CheckStatus status) { out = to_string(status); }
inline void from_json(const nlohmann::json& in, CheckStatus& status) {
  status = check_status(in.get<std::string>());
}

inline void to_json(nlohmann::json& out, CollectiveKind kind) { out = to_string(kind); }
inline void from_json(const nlohmann::json& in, CollectiveKind& kind) {
  const auto named = [](CollectiveKind each) { return std::pair(each, to_string(each)); };
  const EnumNames<CollectiveKind, 5> names = {
      named(CollectiveKind::all_reduce), named(CollectiveKind::broadcast),
      named(CollectiveKind::reduce_scatter), named(CollectiveKind::all_gather),
      named(CollectiveKind::barrier)};
  kind = value_named(names, in.get<std::string>(), "kind of a collective");
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Check, name, status, detail)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Proof, status, checks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Summary, count, mean, std, median, p95, min, max, ci95)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveRecord, kind, bytes, label, enqueue_ns, start_ns,
                                   end_ns, wait_begin_ns, wait_end_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceMemory, allocated_bytes, reserved_bytes,
                                   peak_allocated_bytes, peak_reserved_bytes, retries)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTime, phase, begin_ns, end_ns)

}  // namespace ddprun
