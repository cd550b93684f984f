// A terminate handler. The other threads go on meanwhile, and may hold locks.
#include "runner/launch/uncaught.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <utility>

#include "ddprun/base/failure.h"
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

[[noreturn]] void on_terminate() {
  static std::atomic_flag entered;
  while (entered.test_and_set()) ::pause();  // the first one speaks
  listener()(error_of(words_of_current_exception()));
  ::_exit(kExitFailed);
}

}  // namespace

void say_uncaught(std::function<void(const RankError&)> say) {
  listener() = std::move(say);
  std::set_terminate(on_terminate);
}

}  // namespace ddprun
