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

/// Some shared pages for each rank, and staging memory. A rank begins a collective with a letter to
/// all others: what it calls, and its data if they are small. Then it counts the chunks that it has
/// made readable (post) and those that it is done with (finish). To wait means to wait for the
/// letters or counts of all ranks. A wait stays awake for a short while (set_awaited) and then
/// sleeps. Each rank uses one thread at a time; only abort() may come from another.
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

  const ShmPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  pid_t process(int rank) const { return pids_[rank]; }

  /// Whether someone waits for the collectives that begin from now on: then the waits of this rank
  /// stay awake for longer.
  void set_awaited(bool awaited) { awaited_ = awaited; }

  /// Begins a collective: publishes `call` together with new_letter() and the first chunk, then
  /// waits for the letters of all other ranks. The time limit of all waits until the next begin()
  /// counts from here. Throws as wait_posted() does.
  void begin(const ShmCall& call);
  /// What that rank called, from begin() to the next.
  const ShmCall& call_of(int rank) const;
  /// How many bytes travel best with a call; the same on all ranks.
  std::int64_t letter_bytes() const { return own_cores_ ? kShortLetter : kLongestLetter; }
  /// letter_bytes() that the next begin() publishes.
  std::byte* new_letter() const;
  /// What that rank has published, from begin() to the next. So a rank that has read all letters is
  /// done with the collective, and need not wait until the others have read its own.
  const std::byte* letter_of(int rank) const;

  /// Counts one more chunk of this rank, after the first, as readable, or one as finished.
  void post();
  void finish();
  /// Returns when every rank has posted (finished) all chunks that this rank has, except the last
  /// `lead` ones. Throws PeerGoneError if a rank has ended, left or failed before that,
  /// TimeoutError if the time is up, and std::runtime_error after abort().
  void wait_posted(int lead = 0);
  void wait_finished(int lead = 0);

  /// How many chunks this rank has finished, as all have between two collectives. Chunks are
  /// numbered from there.
  std::int64_t finished() const { return finished_; }
  /// The memory where `rank` puts that chunk for others to read: its input, if its tensor is
  /// outside of shared memory, and its results for others' tensors outside.
  std::byte* staged(int rank, std::int64_t chunk) const;
  std::byte* results(int rank, std::int64_t chunk) const;

  /// Tells the others that a collective failed here. Theirs fail too.
  void mark_failed();
  /// Any thread: ends this rank's waits.
  void abort();

 private:
  /// To write over a line that another core has read takes longer than to read one that it has
  /// written. So where each rank has a core, a second meeting takes less than a longer letter.
  static constexpr std::int64_t kShortLetter = std::int64_t{1} << 10;
  /// Where they share cores, it takes more.
  static constexpr std::int64_t kLongestLetter = std::int64_t{8} << 10;

  struct Control;
  struct Letter;
  struct RankPage;
  /// What a rank makes rise, and others wait for.
  enum class Count { letter, posted, finished };

  RankPage& page(int rank) const;
  Letter& letter(int rank, std::uint64_t call) const;
  std::atomic<std::uint32_t>& word(int rank, Count count) const;
  std::byte* slot(int rank, std::int64_t chunk, int first) const;
  Control& control() const;
  void throw_refusals(const std::vector<std::string>& texts) const;
  void join(const std::string& introduction);
  void watch_processes(const std::vector<std::string>& texts);
  void set_state(std::uint32_t state);
  void advance(Count count);
  /// How long a wait stays awake.
  std::int64_t awake_ns(Count count) const;
  void wait_all(Count count, std::uint32_t target);
  void sleep_until(int peer, Count count, std::uint32_t target);
  /// Throws if a rank that has not reached the target never will.
  void check_peers(Count count, std::uint32_t target) const;
  void wake_all(int rank) const;

  const ShmPlace place_;
  const std::chrono::milliseconds timeout_;
  Mapping memory_;
  std::vector<pid_t> pids_;
  std::vector<Descriptor> processes_;  // by rank (pidfd); none of this rank itself
  bool own_cores_ = false;             // there are as many cores as ranks
  bool awaited_ = false;
  std::uint64_t calls_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t deadline_ns_ = 0;  // 0: nothing has slept since begin()
  std::atomic<bool> aborted_ = false;
};

}  // namespace ddprun
