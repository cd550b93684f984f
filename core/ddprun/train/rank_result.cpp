// A rank's result as JSON and back, without loss.
#include "ddprun/train/rank_result.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr const char* kWhere = "a rank's result";
constexpr const char* kHint = "it was written by another version of ddprun, or is damaged";

using nlohmann::json;

/// JSON has no infinities and no NaN, but a diverging loss has.
json from_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double to_number(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error({.what = "not a number in a rank's result",
               .where = kWhere,
               .got = text,
               .expected = "a number, \"nan\", \"inf\", \"-inf\"",
               .hint = kHint});
}

/// Text, as most readers of JSON keep only 53 bits of an integer.
std::string to_hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error({.what = "not a hash in a rank's result",
                 .where = "parameter_hash",
                 .got = text,
                 .expected = "up to 16 hexadecimal digits",
                 .hint = kHint});
  }
  return value;
}

CollectiveKind kind_from(const std::string& text) {
  for (const auto kind :
       {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce_scatter,
        CollectiveKind::all_gather, CollectiveKind::barrier}) {
    if (text == to_string(kind)) return kind;
  }
  throw Error({.what = "unknown collective in a rank's result",
               .where = "last_step",
               .got = text,
               .expected = "a kind of collective that this ddprun has",
               .hint = kHint});
}

/// Every double of a StepSample that is always there: one list for both directions.
constexpr std::array<std::pair<const char*, double StepSample::*>, 9> kSampleNumbers = {{
    {"step_ms", &StepSample::step_ms},
    {"forward_ms", &StepSample::forward_ms},
    {"backward_ms", &StepSample::backward_ms},
    {"exposed_ms", &StepSample::exposed_ms},
    {"optimizer_ms", &StepSample::optimizer_ms},
    {"communication_ms", &StepSample::communication_ms},
    {"overlapped_ms", &StepSample::overlapped_ms},
    {"launch_delay_ms", &StepSample::launch_delay_ms},
    {"loss", &StepSample::loss},
}};

json sample_to_json(const StepSample& sample) {
  json out = {
      {"step", sample.step},      {"warmup", sample.warmup},           {"skipped", sample.skipped},
      {"gradient_norm", nullptr}, {"collectives", sample.collectives}, {"bytes", sample.bytes}};
  if (sample.gradient_norm) out["gradient_norm"] = from_number(*sample.gradient_norm);
  for (const auto& [name, member] : kSampleNumbers) out[name] = from_number(sample.*member);
  return out;
}

StepSample sample_from_json(const json& in) {
  StepSample sample;
  in.at("step").get_to(sample.step);
  in.at("warmup").get_to(sample.warmup);
  in.at("skipped").get_to(sample.skipped);
  const json& norm = in.at("gradient_norm");
  if (!norm.is_null()) sample.gradient_norm = to_number(norm);
  in.at("collectives").get_to(sample.collectives);
  in.at("bytes").get_to(sample.bytes);
  for (const auto& [name, member] : kSampleNumbers) sample.*member = to_number(in.at(name));
  return sample;
}

/// Every time of a CollectiveRecord.
constexpr std::array<std::pair<const char*, std::int64_t CollectiveRecord::*>, 5> kRecordTimes = {{
    {"enqueue_ns", &CollectiveRecord::enqueue_ns},
    {"start_ns", &CollectiveRecord::start_ns},
    {"end_ns", &CollectiveRecord::end_ns},
    {"wait_begin_ns", &CollectiveRecord::wait_begin_ns},
    {"wait_end_ns", &CollectiveRecord::wait_end_ns},
}};

json record_to_json(const CollectiveRecord& record) {
  json out = {{"kind", to_string(record.kind)}, {"bytes", record.bytes}, {"label", record.label}};
  for (const auto& [name, member] : kRecordTimes) out[name] = record.*member;
  return out;
}

CollectiveRecord record_from_json(const json& in) {
  CollectiveRecord record;
  record.kind = kind_from(in.at("kind").get<std::string>());
  in.at("bytes").get_to(record.bytes);
  in.at("label").get_to(record.label);
  for (const auto& [name, member] : kRecordTimes) in.at(name).get_to(record.*member);
  return record;
}

/// Every number of a DeviceMemory.
constexpr std::array<std::pair<const char*, std::int64_t DeviceMemory::*>, 5> kMemoryNumbers = {{
    {"allocated_bytes", &DeviceMemory::allocated_bytes},
    {"reserved_bytes", &DeviceMemory::reserved_bytes},
    {"peak_allocated_bytes", &DeviceMemory::peak_allocated_bytes},
    {"peak_reserved_bytes", &DeviceMemory::peak_reserved_bytes},
    {"retries", &DeviceMemory::retries},
}};

json memory_to_json(const DeviceMemory& memory) {
  json out;
  for (const auto& [name, member] : kMemoryNumbers) out[name] = memory.*member;
  return out;
}

DeviceMemory memory_from_json(const json& in) {
  DeviceMemory memory;
  for (const auto& [name, member] : kMemoryNumbers) in.at(name).get_to(memory.*member);
  return memory;
}

/// What only malloc could say is left out on the CPU.
json phases_to_json(const RankResult& result) {
  json phases = json::array();
  for (const auto& [phase, memory] : result.memory_phases) {
    json out = memory_to_json(memory);
    if (result.device.empty()) {
      for (const char* name : {"reserved_bytes", "peak_reserved_bytes", "retries"}) out.erase(name);
    }
    out["phase"] = phase;
    phases.push_back(std::move(out));
  }
  return phases;
}

std::vector<PhaseMemory> phases_from_json(const json& in) {
  std::vector<PhaseMemory> phases;
  for (const json& each : in) {
    json numbers = each;
    for (const auto& [name, member] : kMemoryNumbers) numbers.emplace(name, 0);
    phases.push_back({each.at("phase"), memory_from_json(numbers)});
  }
  return phases;
}

json times_to_json(const std::vector<PhaseTime>& phases) {
  json out = json::array();
  for (const auto& [phase, begin_ns, end_ns] : phases) {
    out.push_back({{"phase", phase}, {"begin_ns", begin_ns}, {"end_ns", end_ns}});
  }
  return out;
}

std::vector<PhaseTime> times_from_json(const json& in) {
  std::vector<PhaseTime> phases;
  for (const json& each : in) {
    phases.push_back({each.at("phase"), each.at("begin_ns"), each.at("end_ns")});
  }
  return phases;
}

/// Of ranks on the CPU there is nothing to say, and nothing is written.
void add_device(json& out, const RankResult& result) {
  if (result.device.empty()) return;
  out["device"] = result.device;
  out["device_name"] = result.device_name;
  out["device_memory"] = memory_to_json(result.device_memory);
  if (!result.topology.empty()) out["topology"] = result.topology;
}

void read_device(const json& in, RankResult& result) {
  if (!in.contains("device")) return;
  in.at("device").get_to(result.device);
  in.at("device_name").get_to(result.device_name);
  result.device_memory = memory_from_json(in.at("device_memory"));
  result.topology = in.value("topology", "");
}

RankResult parse(const json& in) {
  RankResult result;
  in.at("rank").get_to(result.rank);
  for (const json& sample : in.at("samples")) result.samples.push_back(sample_from_json(sample));
  for (const json& record : in.at("last_step")) {
    result.last_step.push_back(record_from_json(record));
  }
  in.at("last_step_begin_ns").get_to(result.last_step_begin_ns);
  result.last_step_phases = times_from_json(in.at("last_step_phases"));
  for (const json& check : in.at("checks")) {
    result.checks.push_back({check.at("name"), check.at("status"), check.at("detail")});
  }
  result.parameter_hash = from_hex(in.at("parameter_hash"));
  in.at("peak_resident_bytes").get_to(result.peak_resident_bytes);
  in.at("cores").get_to(result.cores);
  in.at("threads").get_to(result.threads);
  in.at("backend").get_to(result.backend);
  result.first_step_done_s = to_number(in.at("first_step_done_s"));
  in.at("matmul_dtype").get_to(result.matmul_dtype);
  result.memory_phases = phases_from_json(in.at("memory_phases"));
  in.at("memory_snapshot").get_to(result.memory_snapshot);
  read_device(in, result);
  return result;
}

}  // namespace

json to_json(const RankResult& result) {
  json samples = json::array();
  for (const StepSample& sample : result.samples) samples.push_back(sample_to_json(sample));
  json records = json::array();
  for (const CollectiveRecord& record : result.last_step) records.push_back(record_to_json(record));
  json checks = json::array();
  for (const Check& check : result.checks) {
    checks.push_back({{"name", check.name}, {"status", check.status}, {"detail", check.detail}});
  }
  json out = {{"rank", result.rank},
              {"samples", std::move(samples)},
              {"last_step", std::move(records)},
              {"last_step_begin_ns", result.last_step_begin_ns},
              {"last_step_phases", times_to_json(result.last_step_phases)},
              {"checks", std::move(checks)},
              {"parameter_hash", to_hex(result.parameter_hash)},
              {"peak_resident_bytes", result.peak_resident_bytes},
              {"cores", result.cores},
              {"threads", result.threads},
              {"backend", result.backend},
              {"first_step_done_s", from_number(result.first_step_done_s)},
              {"matmul_dtype", result.matmul_dtype},
              {"memory_phases", phases_to_json(result)},
              {"memory_snapshot", result.memory_snapshot}};
  add_device(out, result);
  return out;
}

RankResult rank_result_from_json(const json& in) {
  try {
    return parse(in);
  } catch (const json::exception& error) {
    throw Error({.what = "a rank's result is malformed",
                 .where = kWhere,
                 .got = error.what(),
                 .expected = "every key that this ddprun writes",
                 .hint = kHint});
  }
}

}  // namespace ddprun
