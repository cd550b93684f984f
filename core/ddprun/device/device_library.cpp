// Loads a device's library, and asks it in a child process what is on this machine.
#include "ddprun/device/device_library.h"

#include <fmt/format.h>

#include <map>
#include <system_error>

#include "ddprun/base/build_id.h"
#include "ddprun/base/child_process.h"
#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceProbe, driver, count, compute_capability, refusal, facts,
                                   devices, warnings)

namespace {

using nlohmann::json;

constexpr double kProbeLimitS = 30;

/// What a child process writes of its devices.
void write_probe(const DeviceDescriptor& descriptor, int fd) {
  DeviceProbe probe;
  try {
    descriptor.probe(probe);
  } catch (const std::exception& failure) {
    probe = {};
    probe.refusal = {.what = "the driver cannot say which devices are there",
                     .got = failure.what(),
                     .expected = "a list of devices",
                     .hint = "does the driver's own tool (nvidia-smi) work?"};
  }
  write_all(fd, json_text(probe));
}

DeviceProbe probe_in_child(const DeviceDescriptor& descriptor) {
  const auto fail = [&](const std::string& got) -> ConfigError {
    return ConfigError(
        {.what = fmt::format("the driver of device {} failed", descriptor.library.name),
         .where = "world.device",
         .got = got,
         .expected = "an answer within 30 s",
         .hint = "does the driver's own tool (nvidia-smi) work?"});
  };
  ChildReport report;
  try {
    report = run_in_child([&descriptor](int fd) { write_probe(descriptor, fd); }, kProbeLimitS);
  } catch (const std::system_error& error) {
    throw fail(error.what());
  }
  if (!json::accept(report.text)) throw fail(report.death);
  return parse_json(report.text).get<DeviceProbe>();
}

const DeviceDescriptor& library_of(DeviceKind kind) {
  return load_device_library(name_of(kind), own_library_file(name_of(kind)));
}

}  // namespace

const DeviceDescriptor& load_device_library(const std::string& name, const fs::path& file) {
  if (!fs::exists(file)) {
    throw ConfigError({.what = "this ddprun was built without support for device " + name,
                       .where = "world.device",
                       .got = "no " + file.string(),
                       .expected = "device cpu",
                       .hint =
                           "with a CUDA 13 toolkit installed: scripts/setup.sh --with-cuda, then "
                           "build again with -DDDPRUN_CUDA=ON"});
  }
  return *static_cast<const DeviceDescriptor*>(load_own_library(
      file, "ddprun_device_v1", "the library of device " + name, "a device",
      {sizeof(DeviceDescriptor), kDeviceApiVersion, DDPRUN_BUILD_ID, name.c_str()}));
}

DeviceProbe probe_device(DeviceKind kind) {
  static auto& known = *new std::map<DeviceKind, DeviceProbe>;
  const auto found = known.find(kind);
  if (found != known.end()) return found->second;
  return known[kind] = probe_in_child(library_of(kind));
}

void check_device(DeviceKind kind, std::int64_t local_ranks, const std::string& where) {
  if (kind == DeviceKind::cpu) return;
  DeviceProbe probe;
  try {
    probe = probe_device(kind);
  } catch (const ConfigError& error) {
    ErrorText text = error.text();
    if (text.where != "world.device") text.got = text.where + ": " + text.got;
    text.where = where;
    throw ConfigError(std::move(text));
  }
  if (probe.count == 0) {
    probe.refusal.where = where;
    throw ConfigError(probe.refusal);
  }
  if (local_ranks > probe.count) {
    throw ConfigError({.what = "each rank needs a device of its own",
                       .where = where,
                       .got = counted(local_ranks, "rank") + " on this host",
                       .expected = fmt::format("at most {}, the devices {} that are visible here",
                                               probe.count, name_of(kind)),
                       .hint = "fewer ranks, or more devices in CUDA_VISIBLE_DEVICES"});
  }
}

int compute_capability(DeviceKind kind) {
  return kind == DeviceKind::cpu ? 0 : probe_device(kind).compute_capability;
}

std::shared_ptr<Device> open_device(DeviceKind kind, int local_rank) {
  if (kind == DeviceKind::cpu) return {std::shared_ptr<Device>(), &cpu_device()};
  return std::shared_ptr<Device>(library_of(kind).create(local_rank));
}

}  // namespace ddprun
