// Findings on processor, memory, ranks of this host, GPUs and plugins; all findings, collected and
// printed.
#include "runner/doctor/doctor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <iterator>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/own_library.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/config/experiment.h"
#include "ddprun/device/device.h"
#include "ddprun/device/device_library.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/simd_level.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/speed.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/rank/emulated_ranks.h"
#include "runner/command/commands.h"
#include "runner/launch/supervisor.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

using nlohmann::json;

enum class Health {
  ok,
  absent,   ///< not here, and nothing needs it unless an experiment asks for it
  warning,  ///< runs work, but slower or on less than the machine has
  failed,   ///< runs do not work
};
constexpr auto choice_names(Health) { return std::array{"ok", "absent", "warning", "failed"}; }

struct Observation {
  std::string name;  ///< what was looked at: "cores", "gloo all-reduce"
  Health health = Health::ok;
  std::string text;       ///< what was found, on one line
  std::string hint = {};  ///< what to do about it
};

/// Threads that share the first core with it ("0,32", "0-1"), counted.
int threads_per_core() {
  std::ifstream in("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
  const std::string list((std::istreambuf_iterator<char>(in)), {});
  return 1 +
         static_cast<int>(std::ranges::count_if(list, [](char c) { return c == ',' || c == '-'; }));
}

Observation cores() {
  const auto online = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  const std::size_t usable = usable_cores().size();
  Observation finding{
      "cores", Health::ok,
      fmt::format("{} usable of {}, {} a core", usable, online,
                  threads_per_core() == 1 ? std::string("one thread")
                                          : fmt::format("{} threads", threads_per_core()))};
  if (usable < online) {
    finding.health = Health::warning;
    finding.text += "; this process's affinity is the limit";
  }
  if (const auto quota = cpu_quota(); quota && *quota < static_cast<double>(usable)) {
    finding.health = Health::warning;
    finding.text += fmt::format("; the cgroup's quota allows the time of {:.3g}", *quota);
  }
  return finding;
}

Observation products() {
  const std::string path = bf16_products();
  const char* const gains = kernels::product_path() == kernels::ProductPath::float32
                                ? " (no fast instructions for it: it saves memory, and no time)"
                                : "";
  return {"products", Health::ok,
          fmt::format("bfloat16 by {}{}, float32 by {}", path, gains,
                      environment_fact("float32 products"))};
}

Observation memory() {
  constexpr double kGib = 1 << 30;
  const auto total = static_cast<double>(total_memory());
  const auto available = static_cast<double>(available_memory());
  Observation finding{"memory", Health::ok,
                      fmt::format("{:.1f} GiB, {:.1f} available", total / kGib, available / kGib)};
  if (available < kGib) {
    finding.health = Health::warning;
    finding.hint = "even the quickstart's ranks need about 1 GiB";
  }
  return finding;
}

/// What the kernel is set to, for example "always [madvise] never".
std::string setting(const char* name) {
  std::ifstream in(std::string("/sys/kernel/mm/transparent_hugepage/") + name);
  std::string text;
  std::getline(in, text);
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return end == std::string::npos ? "unknown" : text.substr(begin + 1, end - begin - 1);
}

Observation pages() {
  Observation finding{"huge pages", Health::ok, {}};
  try {
    const HugePages found = huge_pages();
    finding.text = fmt::format(
        "private memory: {} (enabled: {}); shared memory: {} "
        "(shmem_enabled: {}, asked for with MADV_COLLAPSE)",
        found.in_private_memory ? "yes" : "no", setting("enabled"),
        found.in_shared_memory ? "yes" : "no", setting("shmem_enabled"));
    if (!found.in_private_memory || !found.in_shared_memory) {
      finding.health = Health::warning;
      finding.hint =
          "large buffers are slower without: `enabled` should be always or madvise, and "
          "shared memory needs Linux 6.1";
    }
  } catch (const std::exception& failure) {
    finding.health = Health::warning;
    finding.text = failure.what();
  }
  return finding;
}

constexpr std::array kColours = {Colour::green, Colour::dim, Colour::yellow, Colour::red};

void print_json(const std::vector<Observation>& findings) {
  const auto line = [](const Observation& f) {
    return json{
        {"name", f.name}, {"health", name_of(f.health)}, {"text", f.text}, {"hint", f.hint}};
  };
  std::cout << json_text({{"findings", mapped(findings, line)}}, 2) << "\n";
}

void print_text(const std::vector<Observation>& findings) {
  const bool colour = terminal_of(stdout).colour;
  std::size_t name_width = 0;
  for (const Observation& f : findings) name_width = std::max(name_width, f.name.size());
  for (const Observation& f : findings) {
    const std::string health = fmt::format("{:<7}", name_of(f.health));
    std::cout << fmt::format("{}  {:<{}}  {}\n",
                             coloured(health, kColours[static_cast<std::size_t>(f.health)], colour),
                             f.name, name_width, f.text);
    if (!f.hint.empty()) std::cout << fmt::format("{:>{}}{}\n", "", 11 + name_width, f.hint);
  }
}

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

/// shm maps other ranks' memory through /proc/PID/fd, which takes a debugger's rights.
std::string tracing() {
  const auto scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  return scope ? fmt::format("ptrace_scope {}", *scope) : "no ptrace_scope";
}

/// It measures for about two seconds.
std::vector<Observation> examine_machine() {
  std::vector<Observation> findings = {
      {"processor", Health::ok, environment_fact("cpu")},
      cores(),
      {"simd", Health::ok,
       fmt::format("our kernels: {}; ATen's: {}", kernels::simd_level(), environment_fact("simd"))},
      products(),
      memory(),
      pages()};
  const int threads = usable_threads();
  const double one = copy_bytes_per_second(1);
  const double all = threads == 1 ? one : copy_bytes_per_second(threads);
  findings.push_back({"memory copies", Health::ok,
                      fmt::format("{:.1f} GB/s with one thread, {:.1f} GB/s with {} (read + "
                                  "written)",
                                  one * 1e-9, all * 1e-9, threads)});
  at::set_num_threads(1);
  const auto gflops = [](c10::ScalarType dtype) {
    return product_flops(cpu_device(), dtype) * 1e-9;
  };
  findings.push_back({"matrix products", Health::ok,
                      fmt::format("{:.0f} GFLOP/s in float32, {:.0f} in bfloat16, one thread, "
                                  "order 1024",
                                  gflops(c10::kFloat), gflops(c10::kBFloat16))});
  return findings;
}

/// It forks, so call it before anything that starts threads.
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

/// Its ranks are not tried, because mpirun starts them.
Observation examine_mpi() {
  try {
    return {"mpi", Health::ok,
            load_mpi_library().version() + ", for `backend: mpi` in launches of its mpirun"};
  } catch (const ConfigError& error) {
    return unusable(name_of(BackendKind::mpi), error);
  }
}

/// It forks.
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

std::vector<Observation> examine_plugins(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  std::vector<Observation> findings;
  for (const PluginKind kind : kPluginKinds) {
    std::vector<PluginInfo> plugins = registry.list();
    std::erase_if(plugins, [kind](const PluginInfo& info) { return info.kind != kind; });
    const std::string names = list_text(mapped(plugins, &PluginInfo::name));
    const std::string name = std::string(to_string(kind)) + " plugins";
    findings.push_back(names.empty()
                           ? Observation{name, Health::failed, "none was found",
                                         "`ddprun list -v` shows where they were looked for"}
                           : Observation{name, Health::ok, names});
  }
  for (const std::string& refusal : registry.refused()) {
    std::string line = refusal;
    std::ranges::replace(line, '\n', ';');
    findings.push_back({"refused plugin", Health::failed, line});
  }
  return findings;
}

}  // namespace

int doctor_command(const Request& request) {
  std::vector<Observation> findings;
  const auto add = [&findings](std::vector<Observation> more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  std::vector<Observation> ranks = examine_ranks();  // forks, so before what starts threads
  std::vector<Observation> cuda = examine_cuda();
  add(examine_machine());
  add(std::move(ranks));
  add({examine_mpi()});
  add(examine_plugins(request));
  add(std::move(cuda));
  if (request.json) {
    print_json(findings);
  } else {
    print_text(findings);
  }
  return contains(findings, Health::failed, &Observation::health) ? kExitFailed : kExitDone;
}

}  // namespace ddprun
