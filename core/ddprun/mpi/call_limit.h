// A time limit for calls of MPI that have none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ddprun::mpi {

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

}  // namespace ddprun::mpi
