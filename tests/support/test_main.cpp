// GoogleTest's main for every test program: cases share a process but not its state, and one that
// crashes or hangs is named.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "ddprun/memory/huge_heap.h"
#include "support/environment_variables.h"

namespace {

void prepare(int, char**, char**) { ddprun::prepare_heap_for_libtorch(); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**,
                                                                             char**) = prepare;

/// What ctest takes for "skipped" (SKIP_RETURN_CODE).
constexpr int kAllSkipped = 77;
/// Seconds that a case may take; more is a hang. DDPRUN_TEST_LIMIT_S sets another limit.
constexpr unsigned kLimitSeconds = 240;

// What the signal handlers read.
pid_t test_process = 0;
unsigned limit_seconds = kLimitSeconds;
std::string running;

void say(const std::string& text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void kill_children(const std::string& pid) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", gone)) {
    std::ifstream children(task.path() / "children");
    for (std::string child; children >> child;) {
      kill_children(child);
      ::kill(std::stoi(child), SIGKILL);
    }
  }
}

/// The ranks that a case forked would outlive it, and hold its output open.
void end_hang(int) {
  say(running + " hangs: no end after " + std::to_string(limit_seconds) + " s\n");
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  kill_children(std::to_string(test_process));
  ::signal(SIGABRT, SIG_DFL);
  std::abort();
}

/// Once; then the signal does what it would have done.
void name_crash(int number) {
  if (::getpid() == test_process) {
    say(running + " crashes: " + sigdescr_np(number) + "\n");
  }
  ::raise(number);
}

/// Whoever handles a crash already (a sanitizer) says more.
void install_handlers() {
  test_process = ::getpid();
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;
    action.sa_handler = name_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(number, &action, nullptr);
  }
  ::signal(SIGALRM, end_hang);
  if (const char* const limit = std::getenv("DDPRUN_TEST_LIMIT_S")) {
    limit_seconds = static_cast<unsigned>(std::stoul(limit));
  }
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // the first call allocates
}

/// Starts the time of what runs now. A forked child does not inherit the alarm.
void watch(const std::string& what) {
  ::alarm(0);
  running = what;
  ::alarm(limit_seconds);
}

/// Their names alone: values may be secrets.
std::string changed_variables(const std::set<std::string>& before,
                              const std::set<std::string>& after) {
  std::vector<std::string> changed;
  std::set_symmetric_difference(before.begin(), before.end(), after.begin(), after.end(),
                                std::back_inserter(changed));
  std::string names;
  for (const std::string& variable : changed) {
    names += ddprun::test::name_of_variable(variable) + " ";
  }
  return names;
}

/// Watches each case, and gives it what a new process would: torch's seed and number of threads.
/// What it must put back itself is checked, where another case follows.
class OneByOne : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    watch(std::string(test.test_suite_name()) + "." + test.name());
    at::Generator(at::detail::getDefaultCPUGenerator()).set_current_seed(c10::default_rng_seed_val);
    environment_ = ddprun::test::environment();
    folder_ = std::filesystem::current_path();
  }

  void OnTestEnd(const testing::TestInfo&) override {
    // Even to set what is set starts threads, which processes that a later case forks would lack.
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
    if (testing::UnitTest::GetInstance()->test_to_run_count() > 1) expect_as_before();
    watch("what follows " + running);
  }

  void expect_as_before() const {
    EXPECT_EQ(changed_variables(environment_, ddprun::test::environment()), "")
        << "the case leaves these";
    EXPECT_EQ(std::filesystem::current_path(), folder_) << "the case leaves another folder";
  }

  const int threads_ = at::get_num_threads();
  std::set<std::string> environment_;
  std::filesystem::path folder_;
};

}  // namespace

/// A program with arguments of its own defines it, and removes them.
void take_arguments(int& argc, char** argv) __attribute__((weak));
/// The same for one that leaves out cases, once GoogleTest knows them all.
void narrow_cases() __attribute__((weak));

int main(int argc, char** argv) {
  ddprun::use_heap_as_usual();
  if (take_arguments != nullptr) take_arguments(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  if (narrow_cases != nullptr) narrow_cases();
  install_handlers();
  watch("the start");
  auto* const unit_test = testing::UnitTest::GetInstance();
  unit_test->listeners().Append(new OneByOne);
  const int status = RUN_ALL_TESTS();
  if (status != 0 || testing::GTEST_FLAG(list_tests)) return status;
  if (unit_test->test_to_run_count() == 0) {
    say("no case is of that name\n");
    return 1;
  }
  const bool skipped = unit_test->skipped_test_count() == unit_test->test_to_run_count();
  return skipped ? kAllSkipped : 0;
}
