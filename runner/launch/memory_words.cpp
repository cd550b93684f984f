// Reads sizes out of torch's messages, and the kernel's counters.
#include "runner/launch/memory_words.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <regex>

#include "ddprun/base/failure.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/measure/environment.h"
#include "ddprun/rank/heap.h"

namespace ddprun {

namespace {

/// 1.50 GiB, as torch writes sizes.
std::string size_text(double bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 2, kUnits[unit]);
}

/// What this host has, and what this process may have of it.
std::string host_memory() {
  std::string text =
      fmt::format("{} of {} available", size_text(static_cast<double>(available_memory())),
                  size_text(static_cast<double>(total_memory())));
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(", and this process is limited to {} (ulimit -v)",
                        size_text(static_cast<double>(limit.rlim_cur)));
  }
  if (const MemoryLimit own = memory_limit(); own.gb > 0) {
    text += fmt::format(
        ", and this process may take {:g} GB of private memory (world.memory_limit_gb) on top of "
        "the {} that it had when the row began",
        own.gb, size_text(static_cast<double>(own.before)));
  } else if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(", and this process is limited to {} of private memory (ulimit -d)",
                        size_text(static_cast<double>(limit.rlim_cur)));
  }
  return text;
}

/// What could not be allocated, and where.
std::string memory_words(const std::string& message) {
  static const std::regex on_gpu(
      R"(Tried to allocate ([0-9.]+ \w+)\. GPU (\d+) has a total capacity of ([0-9.]+ \w+) of which ([0-9.]+ \w+) is free)");
  static const std::regex on_cpu(R"(tried to allocate (\d+) bytes)");
  std::smatch found;
  if (std::regex_search(message, found, on_gpu)) {
    return fmt::format("tried to allocate {} on GPU {}, which has {} of {} free", found[1].str(),
                       found[2].str(), found[4].str(), found[3].str());
  }
  if (std::regex_search(message, found, on_cpu)) {
    return fmt::format("tried to allocate {}; the host has {}", size_text(std::stod(found[1])),
                       host_memory());
  }
  for (const char* of_the_device : {"CUDA", "Cuda", "NCCL"}) {
    if (message.find(of_the_device) != std::string::npos) return "the GPU has no more";
  }
  return fmt::format("an allocation was refused; the host has {}", host_memory());
}

}  // namespace

ErrorText memory_error(const std::exception& failure) {
  const std::string message = message_of(failure);
  return {.what = "out of memory: " + memory_words(message),
          .got = message,
          .expected = "that all there is at a time fits"};
}

bool near_memory_limit(pid_t process) {
  rlimit limit = {};
  if (prlimit(process, RLIMIT_DATA, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return false;
  }
  const auto taken =
      static_cast<rlim_t>(proc_bytes(fmt::format("/proc/{}/status", process).c_str(), "VmData"));
  return taken + kLittleMemory > limit.rlim_cur;
}

std::int64_t kernel_memory_kills() { return number_in("/proc/vmstat", "oom_kill").value_or(0); }

}  // namespace ddprun
