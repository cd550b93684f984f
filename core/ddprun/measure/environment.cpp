// Reads what the machine and the software are, and looks through the environment once.
#include "ddprun/measure/environment.h"

#include <ATen/Version.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <system_error>

#include "ddprun/base/build_id.h"
#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/kernels/product/product_path.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// The value of the first line "key : value" of a file under /proc, or empty.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    if (line.find_last_not_of(" \t", colon - 1) + 1 != key.size()) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return {};
}

std::string or_unknown(std::string value) { return value.empty() ? "unknown" : value; }

std::string memory_text(std::int64_t bytes) {
  if (bytes == std::numeric_limits<std::int64_t>::max()) return "unknown";
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

/// The quota in one cgroup's folder, in cores: cpu.max ("150000 100000", "max 100000") or
/// cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us. Nothing if it is unlimited.
std::optional<double> quota_in(const fs::path& folder) {
  double quota = 0, period = 0;
  std::ifstream both(folder / "cpu.max");
  const bool has =
      both >> quota >> period || (std::ifstream(folder / "cpu.cfs_quota_us") >> quota &&
                                  std::ifstream(folder / "cpu.cfs_period_us") >> period);
  if (!has || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_environment() {
  utsname system{};
  uname(&system);
  const std::optional<double> quota = cpu_quota();
  const std::string cores =
      fmt::format("{} usable of {}{}", usable_cores().size(), sysconf(_SC_NPROCESSORS_ONLN),
                  quota ? fmt::format(", quota {:.3g}", *quota) : "");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"cpu", or_unknown(proc_value("/proc/cpuinfo", "model name"))},
      {"cores", cores},
      {"simd", at::get_cpu_capability()},
      {"products", bf16_products()},
      {"float32 products", name_of(kernels::float_path())},
      {"memory", memory_text(total_memory())},
      {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"hostname", system.nodename},
      {"torch", TORCH_VERSION},
      {"gloo", std::string("built into torch ") + TORCH_VERSION},
      {"compiler", DDPRUN_COMPILER " (" __VERSION__ ")"},
      {"build", DDPRUN_BUILD_TYPE},
      {"ddprun", DDPRUN_VERSION},
      {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
  };
  facts.insert(facts.end(), set_variables().begin(), set_variables().end());
  return facts;
}

std::string environment_fact(const std::string& name) {
  for (const auto& [key, value] : describe_environment()) {
    if (key == name) return value;
  }
  return "unknown";
}

std::string bf16_products() {
  const std::string refusal = kernels::refused_products();
  if (!refusal.empty()) {
    throw ConfigError({.what = "DDPRUN_PRODUCTS names no way to multiply bfloat16 matrices here",
                       .where = "the environment",
                       .got = fmt::format("{}: {}", std::getenv("DDPRUN_PRODUCTS"), refusal),
                       .expected = list_text(kChoiceNames<kernels::ProductPath>),
                       .hint = "unset it: the fastest that the CPU has is taken"});
  }
  return name_of(kernels::product_path());
}

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> cores;
  for (const fs::path& folder : cgroup_folders("cpu", root)) {
    const auto here = quota_in(folder);
    if (here) cores = std::min(cores.value_or(*here), *here);
  }
  return cores;
}

int usable_threads() {
  const double cores = static_cast<double>(usable_cores().size());
  return std::max(1, static_cast<int>(std::min(cores, cpu_quota().value_or(cores))));
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  }
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::int64_t proc_bytes(const char* file, const std::string& key) {
  return number_in(file, key + ":").value_or(0) * 1024;
}

std::int64_t peak_resident_bytes() { return proc_bytes("/proc/self/status", "VmHWM"); }

const EnvironmentVariable* declared_variable(std::string_view name) {
  const auto fits = [name](const EnvironmentVariable& declared) {
    if (!declared.name.ends_with('*')) return name == declared.name;
    return name.starts_with(declared.name.substr(0, declared.name.size() - 1));
  };
  const auto found = std::ranges::find_if(kEnvironmentVariables, fits);
  return found == kEnvironmentVariables.end() ? nullptr : found;
}

const std::vector<std::pair<std::string, std::string>>& set_variables() {
  static const auto the_variables = [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view text = *each;
      const std::string_view name = text.substr(0, text.find('='));
      if (name.size() == text.size() || declared_variable(name) == nullptr) continue;
      out.emplace_back(name, text.substr(name.size() + 1));
    }
    std::ranges::sort(out);
    return out;
  }();
  return the_variables;
}

}  // namespace ddprun
