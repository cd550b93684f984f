// A terminate handler. The other threads go on meanwhile, and may hold locks.
#include "runner/launch/uncaught.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <utility>

#include "ddprun/base/failure.h"
#include "ddprun/rank/heap.h"
#include "runner/launch/exit_status.h"

namespace ddprun {

namespace {

std::function<void(const RankError&)>& listener() {
  static auto& the_one = *new std::function<void(const RankError&)>;
  return the_one;
}

std::string words_of_current_exception() {
  const std::exception_ptr exception = std::current_exception();
  if (!exception) return "std::terminate() was called";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& failure) {
    return message_of(failure);
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

RankError memory_ran_out(const std::string& words) {
  return {FailureKind::out_of_memory,
          {.what = "out of memory: this process is at its limit of private memory "
                   "(world.memory_limit_gb, ulimit -d)",
           .got = words,
           .expected = "that all there is at a time fits"}};
}

RankError error_of(const std::string& words) {
  if (words.find("gloo") != std::string::npos) {
    return {FailureKind::comm,
            {.what = "gloo got a message that nobody here expects, and gave up",
             .got = words,
             .expected = "the same collectives, of the same size, on every rank",
             .hint = "see the strategy: one rank left a collective out, or made one of another "
                     "size"}};
  }
  return {FailureKind::other,
          {.what = "an exception left its thread",
           .got = words,
           .expected = "exceptions that their thread catches",
           .hint = "these are the words of LibTorch, or of a plugin with threads of its own"}};
}

/// What reaches the end of the process where memory is at its limit is of it, whatever it says, if
/// it could be said at all. To say it takes more of it.
[[noreturn]] void say_and_end_as(const std::function<RankError()>& error) {
  static std::atomic_flag entered;
  while (entered.test_and_set()) ::pause();  // the first one speaks
  const bool memory = at_memory_limit();
  if (memory) limit_memory(0);
  RankError said = error();
  if (memory) said = memory_ran_out(said.text.got);
  listener()(said);
  ::_exit(kExitFailed);
}

[[noreturn]] void on_terminate() {
  say_and_end_as([] { return error_of(words_of_current_exception()); });
}

/// OpenMP calls exit() if it cannot start a thread.
void on_exit() {
  if (!at_memory_limit()) return;  // whoever waits for this process says how it ended
  say_and_end_as([] { return RankError{.text = {.got = "exit() was called"}}; });
}

}  // namespace

void say_and_end(const RankError& error) {
  say_and_end_as([&error] { return error; });
}

void say_uncaught(std::function<void(const RankError&)> say) {
  listener() = std::move(say);
  std::set_terminate(on_terminate);
  static const int once = std::atexit(on_exit);
  static_cast<void>(once);
}

}  // namespace ddprun
