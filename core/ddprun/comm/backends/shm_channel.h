// The shared memory through which the ranks of one host synchronize: what each rank calls, how far
// it is, and whether it is still there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/memory/mapped_memory.h"

namespace ddprun {

/// Thrown if shared memory cannot join the ranks. The text is `rank R: reason`, the same on all
/// ranks.
class ShmRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What one rank calls, as the others read it. The fields up to `bytes` must be equal on all ranks.
struct ShmCall {
  std::int32_t kind = 0;
  std::int32_t op = 0;
  std::int32_t type = 0;
  std::int32_t root = 0;
  std::int64_t bytes = 0;
  std::int32_t allocation = -1;  ///< where this rank's tensor lies; -1: outside
  std::int32_t descriptor = -1;  ///< of the file that this rank adds to the group
  std::int64_t offset = 0;       ///< in the allocation
  std::uint64_t released = 0;    ///< allocations (bits) that this rank no longer uses
};

/// A rank's place among those of one host.
struct ShmPlace {
  int rank = 0;
  int size = 1;
  std::vector<int> members = {};  ///< their numbers in the run; empty: these

  /// "rank 5"
  std::string name_of(int peer) const {
    return "rank " + std::to_string(members.empty() ? peer : members[peer]);
  }
};

/// One shared page for each rank, and staging memory. Each rank counts the chunks of collectives
/// that it has made readable (post) and those that it is done with (finish). To wait means to wait
/// for these counts of all ranks. A wait spins for a short while and then sleeps, so that a waiting
/// thread leaves the core to others. Each rank uses one thread; only abort() may come from another.
class ShmChannel {
 public:
  static constexpr std::int64_t kSlotBytes = std::int64_t{512} << 10;
  static constexpr int kSlots = 3;  ///< one chunk is filled, one reduced, one's results collected

  /// Finds the other ranks through `store`, which must be used by this object alone. Throws
  /// ShmRefused, and TimeoutError if ranks do not come.
  ShmChannel(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
             std::chrono::milliseconds timeout);
  /// Tells the others that this rank has left.
  ~ShmChannel();
  ShmChannel(const ShmChannel&) = delete;
  ShmChannel& operator=(const ShmChannel&) = delete;

  const ShmPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  pid_t process(int rank) const { return pids_[rank]; }

  /// Begins a collective: publishes `call` together with the first chunk, then waits for the calls
  /// of all other ranks. The time limit of all waits until the next begin() counts from here.
  /// Throws as wait_posted() does.
  void begin(const ShmCall& call);
  /// What that rank called, from begin() to the next.
  const ShmCall& call_of(int rank) const;

  /// Counts one more chunk of this rank as readable, or as finished.
  void post();
  void finish();
  /// Returns when every rank has posted (finished) all chunks that this rank has, except the last
  /// `lead` ones. Throws PeerGoneError if a rank has ended, left or failed before that,
  /// TimeoutError if the time is up, and std::runtime_error after abort().
  void wait_posted(int lead = 0);
  void wait_finished(int lead = 0);

  /// The memory where `rank` puts chunks for others to read: its input, if its tensor is outside of
  /// shared memory, and its results for others' tensors outside.
  std::byte* staged(int rank, std::int64_t chunk) const;
  std::byte* results(int rank, std::int64_t chunk) const;

  /// Tells the others that a collective failed here. Theirs fail too.
  void mark_failed();
  /// Any thread: ends this rank's waits.
  void abort();

 private:
  struct Control;
  struct RankPage;
  using Count = std::atomic<std::uint32_t> RankPage::*;

  RankPage& page(int rank) const;
  std::byte* slot(int rank, int index) const;
  Control& control() const;
  void throw_refusals(const std::vector<std::string>& texts) const;
  void join(const std::string& introduction);
  void watch_processes(const std::vector<std::string>& texts);
  void set_state(std::uint32_t state);
  void advance(Count count);
  void wait_all(Count count, std::uint32_t target);
  /// Throws if a rank that has not reached the target never will.
  void check_peers(Count count, std::uint32_t target) const;

  const ShmPlace place_;
  const std::chrono::milliseconds timeout_;
  Mapping memory_;
  std::vector<pid_t> pids_;
  std::vector<Descriptor> processes_;  // by rank (pidfd); none of this rank itself
  std::uint64_t calls_ = 0;
  std::int64_t deadline_ns_ = 0;
  std::atomic<bool> aborted_ = false;
};

}  // namespace ddprun
