// clock_gettime as an instruction: symbols of libraries can be interposed.
#include "ddprun/measure/kernel_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace ddprun {

namespace {

std::int64_t ask(clockid_t clock) {
  timespec time = {};
  long result = SYS_clock_gettime;
  asm volatile("syscall" : "+a"(result) : "D"(clock), "S"(&time) : "rcx", "r11", "memory");
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct Threads {
  std::mutex mutex;
  std::set<int> numbers;
};

Threads& noted() {
  static auto& threads = *new Threads;  // threads may outlive static objects
  return threads;
}

}  // namespace

std::int64_t kernel_clock_ns() { return ask(CLOCK_MONOTONIC); }
std::int64_t thread_cpu_ns(int thread) {
  // As the kernel encodes the clock of a thread (include/linux/posix-timers.h).
  return ask(static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6));
}
std::int64_t process_cpu_ns() { return ask(CLOCK_PROCESS_CPUTIME_ID); }

void note_own_thread() {
  Threads& threads = noted();
  const std::lock_guard lock(threads.mutex);
  threads.numbers.insert(static_cast<int>(::syscall(SYS_gettid)));
}

std::map<int, std::int64_t> own_threads_cpu_ns() {
  Threads& threads = noted();
  const std::lock_guard lock(threads.mutex);
  std::map<int, std::int64_t> times;
  for (const int thread : threads.numbers) times[thread] = thread_cpu_ns(thread);
  return times;
}

}  // namespace ddprun
