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

/// Without samples there is no figure, and with one no spread: null, and not zero.
inline void to_json(nlohmann::json& out, const Summary& of) {
  const auto of_samples = [&of](double value, int least = 1) {
    return of.count < least ? nlohmann::json(nullptr) : nlohmann::json(value);
  };
  out = {{"count", of.count},
         {"mean", of_samples(of.mean)},
         {"std", of_samples(of.std, 2)},
         {"median", of_samples(of.median)},
         {"p95", of_samples(of.p95)},
         {"p99", of_samples(of.p99)},
         {"min", of_samples(of.min)},
         {"max", of_samples(of.max)},
         {"ci95", of_samples(of.ci95, 2)}};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveRecord, kind, bytes, ranks, ranks_per_host, label,
                                   enqueue_ns, start_ns, end_ns, wait_begin_ns, wait_end_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveCost, kind, ranks, latency_us, gb_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceMemory, allocated_bytes, reserved_bytes,
                                   peak_allocated_bytes, peak_reserved_bytes, retries)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoreTime, core, busy_s, stolen_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostLoad, wall_s, own_s, cores, sees, throttled_s)
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
