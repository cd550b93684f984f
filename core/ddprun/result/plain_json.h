// JSON of a result's plain structs. Sources that write or read result.json include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/link_waits.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/result/check.h"
#include "ddprun/result/run.h"

namespace ddprun {

/// Enums travel by their names.
template <NamedEnum E>
void to_json(nlohmann::json& out, E value) {
  out = name_of(value);
}
template <NamedEnum E>
void from_json(const nlohmann::json& in, E& value) {
  value = value_named<E>(in.get<std::string>());
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Check, name, status, detail)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Proof, status, checks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Summary, count, mean, std, median, p95, p99, min, max, ci95)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveRecord, kind, bytes, ranks, ranks_per_host, label,
                                   enqueue_ns, start_ns, end_ns, wait_begin_ns, wait_end_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveCost, kind, ranks, latency_us, gb_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceMemory, allocated_bytes, reserved_bytes,
                                   peak_allocated_bytes, peak_reserved_bytes, retries)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoreTime, core, busy_s, stolen_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostLoad, wall_s, own_s, cores, sees)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Occasion, time, host, process, round)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimeSpan, name, begin_ns, end_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTimeline, step, begin_ns, phases, units, gradients_ns,
                                   collectives)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeakMemory, phase, tensors, categories, unexplained_bytes,
                                   resident_bytes, saved, saved_again, tokens)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SavedCheckpoint, step, seconds, stall_seconds, steps_beside,
                                   bytes, folder, failure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WrittenText, step, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LostUpdates, parameter, weights, looked_at, lost, steps,
                                   steps_without_effect)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OperatorRow, phase, unit, part, name, dtype, calls, ns, flops,
                                   bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Roofline, product_flops, copy_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OperatorTable, step_ns, rows, roofline)

}  // namespace ddprun
