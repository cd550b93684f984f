// A list of numbers of threads.
#include "ddprun/measure/own_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "ddprun/measure/kernel_clock.h"

namespace ddprun {

namespace {

struct Threads {
  std::mutex mutex;
  std::set<int> numbers;
};

Threads& noted() {
  static auto& threads = *new Threads;  // threads may outlive static objects
  return threads;
}

}  // namespace

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
