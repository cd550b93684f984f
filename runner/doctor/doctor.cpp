// Findings on processor and memory; all findings, collected and printed.
#include "runner/doctor/doctor.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

#include "ddprun/base/json.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/device/device.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/simd_level.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/speed.h"
#include "runner/command/commands.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

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

using nlohmann::json;

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

}  // namespace

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
