// MPI in this process: started once, ended when the process ends, with limits for calls that have
// none.
// Family: mpi_backend.cpp
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::mpi {

/// Throws std::runtime_error with MPI's words if `status`, of that call, is an error.
void check(int status, const char* call);

/// "Open MPI v4.1.4"; MPI need not have been started.
std::string version();

/// Stands around a call of MPI that may wait for other ranks for ever. If it lives for longer than
/// its limit, this process says so on stderr and ends with exit status 1, whereupon mpirun ends the
/// others: nothing else can leave such a call.
class CallLimit {
 public:
  /// `call`: its name, a literal. `limit`: from now on.
  CallLimit(const char* call, std::chrono::milliseconds limit);
  ~CallLimit();

 private:
  void watch(const char* call, std::chrono::milliseconds limit);

  std::mutex mutex_;
  std::condition_variable returned_;
  bool has_returned_ = false;
  std::thread watch_;  // last: it uses the above
};

/// MPI's processes cannot start it twice, so all groups of a process share it. Calls to MPI come
/// from one thread at a time.
class Session {
 public:
  /// Starts MPI at the first call, on the calling thread. Throws std::runtime_error. `limit`: of
  /// that, and of the end of MPI, as CallLimit says.
  static Session& get(std::chrono::milliseconds limit);

  /// Ends MPI, if get() started it: once, at the end of the process.
  static void finish();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// A collective of this process will never end: nothing more may be asked of MPI, and the process
  /// ends without it, with exit status 1.
  void mark_stuck() { stuck_ = true; }
  /// A group ended other than in order: MPI_Finalize would wait for ranks that do not come.
  void mark_failed() { failed_ = true; }
  bool stuck() const { return stuck_; }

 private:
  explicit Session(std::chrono::milliseconds limit);

  const std::chrono::milliseconds limit_;
  int rank_ = 0;
  int size_ = 1;
  std::atomic<bool> stuck_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace ddprun::mpi
