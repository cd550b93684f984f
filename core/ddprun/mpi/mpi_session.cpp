// Starts MPI, turns its errors into words, and ends it with the process.
#include "ddprun/mpi/mpi_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun::mpi {

namespace {

Session* started = nullptr;

}  // namespace

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, words, &length);
  throw std::runtime_error(std::string(call) + ": " + words);
}

std::string version() {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(words, &length);
  const std::string text = words;  // "Open MPI v4.1.4, package: Debian ..., ident: 4.1.4, ..."
  return text.substr(0, text.find_first_of(",\n"));
}

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

Session& Session::get(std::chrono::milliseconds limit) {
  static auto& session = *new Session(limit);  // finish() needs it when static objects are gone
  return session;
}

Session::Session(std::chrono::milliseconds limit) : limit_(limit) {
  const CallLimit within("MPI_Init_thread", limit);
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw std::runtime_error("this MPI lets no other thread call it than the one that started it");
  }
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  started = this;
  std::atexit(finish);  // of a program of somebody's own
}

void Session::finish() {
  const Session* const session = std::exchange(started, nullptr);
  if (session == nullptr) return;
  if (session->stuck_) {
    // A thread is still within MPI and would outlive what it uses.
    std::fflush(nullptr);
    ::_exit(1);
  }
  if (session->failed_) return;
  const CallLimit within("MPI_Finalize", session->limit_);
  MPI_Finalize();
}

}  // namespace ddprun::mpi
