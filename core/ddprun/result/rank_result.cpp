// A rank's result as JSON and back, without loss.
#include "ddprun/result/rank_result.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/result/plain_json.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr const char* kOtherVersion = "the result was written by another version of ddprun";

/// What only a device's allocator counts: left out on the CPU.
constexpr std::array kDeviceAlone = {"reserved_bytes", "peak_reserved_bytes", "retries"};

std::uint64_t parameter_hash(const std::string& text) {
  if (const auto hash = hash_from_hex(text)) return *hash;
  throw Error({.what = "not a hash in a rank's result",
               .where = "parameter_hash",
               .got = text,
               .expected = "up to 16 hexadecimal digits",
               .hint = kOtherVersion});
}

json phases_to_json(const RankResult& result) {
  json phases = json::array();
  for (const auto& [phase, memory] : result.memory_phases) {
    json out = memory;
    if (result.device.empty()) {
      for (const char* name : kDeviceAlone) out.erase(name);
    }
    out["phase"] = phase;
    phases.push_back(std::move(out));
  }
  return phases;
}

std::vector<PhaseMemory> phases_from_json(const json& in) {
  std::vector<PhaseMemory> phases;
  for (json each : in) {
    for (const char* name : kDeviceAlone) each.emplace(name, 0);
    phases.push_back({each.at("phase"), each.get<DeviceMemory>()});
  }
  return phases;
}

/// Of ranks on the CPU there is nothing to say, and nothing is written.
void add_device(json& out, const RankResult& result) {
  if (result.device.empty()) return;
  out["device"] = result.device;
  out["device_name"] = result.device_name;
  out["device_memory"] = result.device_memory;
  if (!result.topology.empty()) out["topology"] = result.topology;
}

void read_device(const json& in, RankResult& result) {
  if (!in.contains("device")) return;
  in.at("device").get_to(result.device);
  in.at("device_name").get_to(result.device_name);
  in.at("device_memory").get_to(result.device_memory);
  result.topology = in.value("topology", "");
}

/// Calls visit(key, field) for what stands in JSON as it is.
template <class Result, class Visit>
void for_plain_fields(Result& result, const Visit& visit) {
  visit("rank", result.rank);
  visit("timeline", result.timeline);
  visit("link", result.link);
  visit("checks", result.checks);
  visit("checks_s", result.checks_s);
  visit("peak_resident_bytes", result.peak_resident_bytes);
  visit("shared_resident_bytes", result.shared_resident_bytes);
  visit("cores", result.cores);
  visit("threads", result.threads);
  visit("backend", result.backend);
  visit("fell_back", result.fell_back);
  visit("conditions", result.conditions);
  visit("host", result.host);
  visit("load", result.load);
  visit("gflops_before", result.gflops_before);
  visit("gflops_after", result.gflops_after);
  visit("first_step_done_s", result.first_step_done_s);
  visit("products", result.products);
  visit("matmul_dtype", result.matmul_dtype);
  visit("observed", result.observed);
  visit("memory_snapshot", result.memory_snapshot);
}

RankResult parse(const json& in, const ExperimentKind& kind) {
  RankResult result;
  for_plain_fields(result, [&in](const char* key, auto& field) { in.at(key).get_to(field); });
  result.samples = samples_from_json(in.at("samples"), kind);
  result.parameter_hash = parameter_hash(in.at("parameter_hash"));
  result.memory_phases = phases_from_json(in.at("memory_phases"));
  read_device(in, result);
  if (in.contains("memory_peak")) in.at("memory_peak").get_to(result.memory_peak);
  if (in.contains("checkpoints")) in.at("checkpoints").get_to(result.checkpoints);
  if (in.contains("lost_updates")) in.at("lost_updates").get_to(result.lost_updates);
  if (in.contains("texts")) in.at("texts").get_to(result.texts);
  if (in.contains("operators")) in.at("operators").get_to(result.operators);
  return result;
}

}  // namespace

json to_json(const RankResult& result) {
  json out = {{"samples", samples_to_json(result.samples)},
              {"parameter_hash", fmt::format("{:x}", result.parameter_hash)},
              {"memory_phases", phases_to_json(result)}};
  for_plain_fields(result, [&out](const char* key, const auto& field) { out[key] = field; });
  add_device(out, result);
  if (result.memory_peak.recorded()) out["memory_peak"] = result.memory_peak;
  if (!result.checkpoints.empty()) out["checkpoints"] = result.checkpoints;
  if (!result.lost_updates.empty()) out["lost_updates"] = result.lost_updates;
  if (!result.texts.empty()) out["texts"] = result.texts;
  if (result.operators.recorded()) out["operators"] = result.operators;
  return out;
}

RankResult rank_result_from_json(const json& in, const ExperimentKind& kind) {
  try {
    return parse(in, kind);
  } catch (const json::exception& error) {
    throw Error({.what = "a rank's result is malformed",
                 .where = "a rank's result",
                 .got = error.what(),
                 .expected = fmt::format("the result of a rank of kind {}", kind.name()),
                 .hint = kOtherVersion});
  }
}

}  // namespace ddprun
