// Threads of a block as coroutines of one thread. A warp runs as far as it gets before the next one
// does, so that it is as far ahead of others as a GPU may let it be.
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "cuda_runtime.h"
#include "ddprun/base/error.h"

namespace ddprun::test {

namespace {

constexpr std::size_t kStack = 64 << 10;
constexpr std::size_t kWarp = 32;

enum class State { runs, waits_for_warp, waits_for_block, ended };

/// setjmp switches between stacks that have begun: swapcontext asks the kernel each time.
struct Thread {
  ucontext_t begin;
  jmp_buf place;
  State state;
  bool begun = false;
  int shuffles;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);
};

class Blocks {
 public:
  void run(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
    body_ = &thread;
    gridDim = blocks;
    blockDim = threads;
    if (threads_.size() < threads.x) threads_.resize(threads.x);
    slots_.resize(threads.x / kWarp + 1);
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) run_block(threads.x);
  }

  void wait(State state) {
    Thread& own = threads_[threadIdx.x];
    own.state = state;
    if (_setjmp(own.place) == 0) _longjmp(scheduler_, 1);
  }

  std::uint64_t* slots() {
    return slots_[threadIdx.x / kWarp].of_lanes[threads_[threadIdx.x].shuffles++ % 2];
  }

 private:
  static void enter();

  void run_block(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Thread& thread = threads_[i];
      thread.state = State::runs;
      thread.shuffles = 0;
    }
    do {
      in_some_order((count + kWarp - 1) / kWarp, [&](std::size_t warp) {
        run_warp(warp * kWarp, std::min(count, (warp + 1) * kWarp));
      });
    } while (release(0, count, State::waits_for_block));
    for (std::size_t i = 0; i < count; ++i) {
      if (threads_[i].state == State::ended) continue;
      throw Error({.what = "threads of a block wait for each other for good"});
    }
  }

  /// As far as it gets alone.
  void run_warp(std::size_t begin, std::size_t end) {
    do {
      in_some_order(end - begin, [&](std::size_t lane) { resume(begin + lane); });
    } while (release(begin, end, State::waits_for_warp));
  }

  /// From the first or from the last on: what a missing barrier leaves open comes out in both ways.
  template <class F>
  void in_some_order(std::size_t count, const F& f) {
    const bool backward = random_() % 2 == 0;
    for (std::size_t i = 0; i < count; ++i) f(backward ? count - 1 - i : i);
  }

  void resume(std::size_t index) {
    Thread& thread = threads_[index];
    if (thread.state != State::runs) return;
    threadIdx.x = static_cast<unsigned>(index);
    if (_setjmp(scheduler_) != 0) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    getcontext(&thread.begin);
    thread.begin.uc_stack = {.ss_sp = thread.stack.get(), .ss_flags = 0, .ss_size = kStack};
    makecontext(&thread.begin, &enter, 0);
    setcontext(&thread.begin);
  }

  /// If none of these threads is elsewhere, those that wait so go on.
  bool release(std::size_t begin, std::size_t end, State state) {
    bool any = false;
    for (std::size_t i = begin; i < end; ++i) {
      if (threads_[i].state != state && threads_[i].state != State::ended) return false;
      any |= threads_[i].state == state;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (threads_[i].state == state) threads_[i].state = State::runs;
    }
    return any;
  }

  struct Slots {
    std::uint64_t of_lanes[2][kWarp];
  };

  const std::function<void()>* body_ = nullptr;
  jmp_buf scheduler_;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
  std::vector<Slots> slots_;
};

Blocks& blocks() {
  static Blocks blocks;
  return blocks;
}

void Blocks::enter() {
  for (Blocks& all = blocks();;) {
    (*all.body_)();
    all.wait(State::ended);  // until it is a thread of another block
  }
}

}  // namespace

void run_blocks(dim3 grid, dim3 threads, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  blocks().run(grid, threads, thread);
}

void wait_for_block() { blocks().wait(State::waits_for_block); }
void wait_for_warp() { blocks().wait(State::waits_for_warp); }
std::uint64_t* warp_slots() { return blocks().slots(); }

}  // namespace ddprun::test
