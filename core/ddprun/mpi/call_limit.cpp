// A thread that ends the process unless it is told in time that the call has returned.
#include "ddprun/mpi/call_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "ddprun/base/error.h"

namespace ddprun::mpi {

CallLimit::CallLimit(const char* call, std::chrono::milliseconds limit)
    : watch_([this, call, limit] { watch(call, limit); }) {}

CallLimit::~CallLimit() {
  {
    const std::lock_guard lock(mutex_);
    has_returned_ = true;
  }
  returned_.notify_one();
  watch_.join();
}

void CallLimit::watch(const char* call, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (returned_.wait_for(lock, limit, [this] { return has_returned_; })) return;
  const Error error(
      {.what = "a call of MPI does not return",
       .where = fmt::format("{}, process {}", call, ::getpid()),
       .got = fmt::format("no answer within {:.1f} s", static_cast<double>(limit.count()) * 1e-3),
       .expected = "every rank of the launch, and an MPI that answers",
       .hint = "see the messages of the other ranks; `timeout_s` under `world:` is the "
               "limit"});
  std::fprintf(stderr, "error: %s\n", error.what());
  std::fflush(nullptr);
  ::_exit(1);
}

}  // namespace ddprun::mpi
