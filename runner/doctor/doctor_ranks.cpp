// What `ddprun doctor` says of ranks on this host: it starts some and lets them all-reduce.
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <netdb.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>

#include "ddprun/base/error.h"
#include "ddprun/base/own_library.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/config/experiment.h"
#include "ddprun/device/device_library.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/rank/emulated_ranks.h"
#include "runner/doctor/doctor.h"
#include "runner/launch/supervisor.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr std::int64_t kElements = (1 << 20) / sizeof(float);

/// Median microseconds of an all-reduce of 1 MiB as one rank sees it. Throws if a result is wrong.
double timed_all_reduces(ProcessGroup& group) {
  Device& device = group.device();
  constexpr int kRuns = 15;
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const at::Tensor tensor =
        at::ones({kElements}, at::TensorOptions(device.torch_device()).dtype(at::kFloat));
    group.barrier();
    const Mark begin = device.mark();
    group.all_reduce(tensor, ReduceOp::sum, "doctor").wait();
    const Mark end = device.mark();
    times.push_back(static_cast<double>(device.time_of(end) - device.time_of(begin)) * 1e-3);
    const double lowest = tensor.min().item<double>();
    const double highest = tensor.max().item<double>();
    if (lowest != group.size() || highest != group.size()) {
      throw Error({.what = "the all-reduce gave a wrong sum",
                   .where = "rank " + std::to_string(group.rank()),
                   .got = fmt::format("{} to {}", lowest, highest),
                   .expected = std::to_string(group.size()),
                   .hint = "the backend or the network is at fault: try another backend"});
    }
  }
  return summarize(std::move(times)).median;
}

/// Starts the processes of `world`, which meet and all-reduce.
Observation all_reduce(const WorldConfig& world) {
  const auto ranks = static_cast<int>(world.size);
  Observation finding{name_of(world.comm.backend) + std::string(" all-reduce"), Health::ok, {}};
  const RankBody body = [&](const RankInfo& info, const auto&) -> json {
    const auto device = open_rank_device(world, info);
    const auto group = connect(info, world.comm, "doctor", host_identity(), *device);
    const double microseconds = timed_all_reduces(*group);
    group->shutdown();
    return microseconds;
  };
  SignalWatch signals;
  const RankObserver observer = {
      [](const Progress&) {},
      [](int, const std::string&, const std::string& text) { spdlog::warn("{}", text); }};
  const Outcome outcome = run_ranks(world, body, signals, observer);
  if (outcome.status == Outcome::Status::ok && world.emulated()) {
    finding.text = fmt::format("right between {} processes that share a GPU", ranks);
  } else if (outcome.status == Outcome::Status::ok) {
    finding.text =
        fmt::format("1 MiB between {} processes in {:.0f} µs", ranks, outcome.result.get<double>());
  } else {
    finding.health = Health::failed;
    finding.text = outcome.reason;
    std::ranges::replace(finding.text, '\n', ';');
  }
  return finding;
}

CommConfig over(BackendKind backend) { return {.backend = backend, .timeout_s = 20}; }

Observation host_name() {
  const std::string name = environment_fact("hostname");
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(name.c_str(), nullptr, nullptr, &found);
  if (failed == 0) {
    ::freeaddrinfo(found);
    return {"host name", Health::ok, name + " has an address"};
  }
  return {"host name", Health::warning, name + ": " + ::gai_strerror(failed),
          "runs over several hosts need it, or MASTER_ADDR as an address"};
}

/// A library of our own that cannot be used, which is a failure only if it was built.
Observation unusable(const std::string& library, const ConfigError& error) {
  const bool built = std::filesystem::exists(own_library_file(library));
  const ErrorText& text = error.text();
  return {library, built ? Health::failed : Health::absent,
          text.what + (text.got.empty() ? "" : ": " + text.got), text.hint};
}

/// shm maps the memory of the other ranks through /proc/PID/fd, for which the kernel asks for the
/// rights of a debugger.
std::string tracing() {
  std::ifstream in("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return in >> scope ? fmt::format("ptrace_scope {}", scope) : "no ptrace_scope";
}

}  // namespace

std::vector<Observation> examine_ranks() {
  std::vector<Observation> findings = {host_name(),
                                       all_reduce({.size = 2, .comm = over(BackendKind::gloo)}),
                                       all_reduce({.size = 2, .comm = over(BackendKind::shm)})};
  Observation& shm = findings.back();
  shm.text += ", " + tracing();
  if (shm.health == Health::failed) {
    shm.health = Health::warning;  // auto takes gloo then
    shm.hint =
        "`backend: auto` takes gloo instead; one user and one PID namespace are needed, and "
        "Linux 5.3";
  }
  return findings;
}

Observation examine_mpi() {
  try {
    return {"mpi", Health::ok,
            load_mpi_library().version() + ", for `backend: mpi` in launches of its mpirun"};
  } catch (const ConfigError& error) {
    return unusable(name_of(BackendKind::mpi), error);
  }
}

std::vector<Observation> examine_cuda() {
  DeviceProbe probe;
  try {
    probe = probe_device(DeviceKind::cuda);
  } catch (const ConfigError& error) {
    return {unusable(name_of(DeviceKind::cuda), error)};
  }
  if (probe.count == 0) {
    return {{"cuda", probe.driver ? Health::warning : Health::absent,
             probe.refusal.what + ": " + probe.refusal.got, probe.refusal.hint}};
  }
  std::vector<Observation> findings;
  for (const auto& [name, text] : probe.facts) findings.push_back({name, Health::ok, text});
  for (const auto& [name, text] : probe.devices) findings.push_back({name, Health::ok, text});
  for (const auto& text : probe.warnings) findings.push_back({"cuda", Health::warning, text});
  const bool alone = probe.count == 1;
  findings.push_back(all_reduce({.size = alone ? 2 : probe.count,
                                 .device = DeviceKind::cuda,
                                 .emulate_ranks_on_one_gpu = alone,
                                 .comm = over(BackendKind::nccl)}));
  return findings;
}

}  // namespace ddprun
