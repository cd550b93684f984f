// What a process computes while it should rest, and two clocks beside each other.
#include "ddprun/proof/time_proof.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <locale>
#include <map>
#include <system_error>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/base/text.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/kernel_clock.h"
#include "ddprun/proof/proof.h"

namespace ddprun {

namespace {

/// What a thread of a backend may take to end a collective.
constexpr std::chrono::milliseconds kSettle{1};
constexpr std::chrono::milliseconds kRest{3};
/// Of the time of a rest. Threads that wake up now and then stay far below.
constexpr double kBusy = 0.5;
/// Of the time of all steps, and of each step, in which the two clocks are read twice.
constexpr double kClockTolerance = 0.01;
constexpr std::int64_t kReadNs = 20'000;

/// Notes the threads that compute in parallel for this one. They wait for the next such call by
/// spinning, and can do nothing else.
void note_pool() {
  at::parallel_for(0, at::get_num_threads(), 1,
                   [](std::int64_t, std::int64_t) { note_own_thread(); });
}

/// CPU time of the process, and of the core's own threads in it.
struct Computed {
  std::int64_t at_ns = kernel_clock_ns();
  std::map<int, std::int64_t> own_ns = own_threads_cpu_ns();
  std::int64_t all_ns = process_cpu_ns();

  /// Of the other threads, since then.
  std::int64_t since(const Computed& before) const {
    std::int64_t ns = all_ns - before.all_ns;
    for (const auto& [thread, begin_ns] : before.own_ns) {
      ns -= std::max<std::int64_t>(0, own_ns.at(thread) - begin_ns);
    }
    return ns;
  }
};

/// By how much now_ns() is ahead of the kernel's clock. The two are read again if the thread lost
/// its core in between.
std::int64_t ahead_ns() {
  std::int64_t ahead = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const std::int64_t before = kernel_clock_ns(), now = now_ns(), after = kernel_clock_ns();
    ahead = now - before - (after - before) / 2;
    if (after - before < kReadNs) break;
  }
  return ahead;
}

/// By what is computed: std::fegetround() reads a register of the x87, which float does not obey.
bool rounds_to_nearest() {
  const volatile float one = 1, ulp = std::numeric_limits<float>::epsilon();
  return one + 0.75F * ulp > one && one + 0.25F * ulp == one;
}

/// Of a processor that is told to flush them there is none.
bool keeps_denormals() {
  const volatile float smallest = std::numeric_limits<float>::min();
  const volatile float half = smallest / 2;
  return half > 0;
}

using Settings = std::map<std::string, std::string>;

Settings settings() {
  const at::Context& torch = at::globalContext();
  using at::Float32Backend, at::Float32Op;
  std::error_code none;  // of a folder that is gone
  return {{"rounding", rounds_to_nearest() ? "to nearest" : "another"},
          {"a denormal number", keeps_denormals() ? "kept" : "taken for zero"},
          {"the locale", std::setlocale(LC_ALL, nullptr)},
          {"the decimal point",
           std::string(1, std::use_facet<std::numpunct<char>>(std::locale()).decimal_point())},
          {"the working directory", std::filesystem::current_path(none).string()},
          {"oneDNN", torch.userEnabledMkldnn() ? "on" : "off"},
          {"deterministic operators", torch.deterministicAlgorithms() ? "on" : "off"},
          {"float32 products",
           at::precision2str(torch.float32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL))}};
}

/// Whether the process has a child, running or ended.
bool has_child() {
  siginfo_t none = {};
  return ::waitid(P_ALL, 0, &none, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Of the process as it began.
const Settings kBeforePlugins = settings();
const bool kHadChild = has_child();  // of a shell that became this process

std::string text_of(const ProcessState& what) {
  return fmt::format("{} on core {}", counted(what.threads, "thread"), fmt::join(what.cores, ", "));
}

}  // namespace

Check check_rest(ProcessGroup& group) {
  note_pool();
  group.barrier("rest");
  std::this_thread::sleep_for(kSettle);
  const Computed before;
  std::this_thread::sleep_for(kRest);
  Computed after;
  // This thread's once more, behind the process's: what a host takes from it in between is nobody's
  // work.
  const int self = static_cast<int>(::gettid());
  after.own_ns[self] = thread_cpu_ns(self);
  const double rested_ms = to_ms(after.at_ns - before.at_ns);
  const double computed_ms = to_ms(after.since(before));
  std::string own;
  if (computed_ms > kBusy * rested_ms) {
    own = fmt::format(
        "threads of the rank computed for {:.1f} ms in {:.1f} ms after the step had ended, when "
        "nothing was asked of them",
        computed_ms, rested_ms);
  }
  return check_of_all(group, "rest_after_steps", own,
                      fmt::format("{:.1f} ms after the step no thread works on", rested_ms));
}

ProcessState process_state() {
  const auto handler = [](int signal) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  return {usable_cores(), at::get_num_threads(), {handler(SIGTERM), handler(SIGUSR1)}};
}

std::string find_changed(const ProcessState& told) {
  const ProcessState now = process_state();
  if (now.threads != told.threads || now.cores != told.cores) {
    return fmt::format("the rank computes with {}, and was told {}", text_of(now), text_of(told));
  }
  if (!kHadChild && has_child()) {
    return "the rank has a child process, whose work is in none of its times";
  }
  if (now.handlers != told.handlers) return "SIGTERM or SIGUSR1 has another handler than at first";
  for (const auto& [name, value] : settings()) {
    const std::string& before = kBeforePlugins.at(name);
    if (value != before) return fmt::format("{} is {}, and was {} at first", name, value, before);
  }
  return {};
}

Check check_process(ProcessGroup& group, const ProcessState& told, const std::string& within) {
  return check_of_all(group, "process_as_told", within.empty() ? find_changed(told) : within,
                      text_of(told) + ", and the process's settings as they were");
}

void ClockProof::begin_step() {
  begin_ahead_ns_ = ahead_ns();
  begin_ns_ = now_ns();
}

void ClockProof::end_step() {
  ++steps_;
  steps_ns_ += now_ns() - begin_ns_;
  off_ns_ += std::abs(ahead_ns() - begin_ahead_ns_);
}

Check ClockProof::finish(ProcessGroup& group) const {
  const double ms = to_ms(steps_ns_), off_ms = to_ms(off_ns_);
  std::string own;
  if (off_ms > kClockTolerance * ms + to_ms(2 * kReadNs * steps_)) {
    own = fmt::format(
        "{} took {:.2f} ms by the clock of this process, which differs by {:.2f} ms from the "
        "kernel's, step by step: something replaced clock_gettime",
        counted(steps_, "step"), ms, off_ms);
  }
  return check_of_all(
      group, "clock_agrees", own,
      fmt::format("steps took {:.2f} ms by both clocks, that of all times and the kernel's", ms));
}

}  // namespace ddprun
