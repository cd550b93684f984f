// What each rank that a parent forked is doing, in memory that the ranks and the parent share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

/// One call that all ranks make: of a collective, or of an exchange of texts.
struct CollectiveCall {
  std::uint64_t number = 0;  ///< of this rank's calls, from 1; 0: none yet
  std::int64_t bytes = 0;
  char kind[24] = {};   ///< "all_reduce"
  char label[64] = {};  ///< its beginning, if it is longer

  /// "all_reduce 'layers.0.w' of 4096 bytes"
  std::string text() const;
};

/// The call of these values; what is too long is cut.
CollectiveCall make_call(std::uint64_t number, std::string_view kind, std::int64_t bytes,
                         std::string_view label);
/// The last calls of a rank, oldest first, and what it does: "in backward of step 3".
struct RankCalls {
  std::string phase;
  std::vector<CollectiveCall> calls;
};
/// The first call that two ranks did not make alike; nothing if there is none. `ranks`: in rank
/// order. A call that only one of them has is no difference.
std::optional<CommError> different_calls(const std::vector<RankCalls>& ranks);

/// What a rank does at one moment.
struct RankStatus {
  std::string phase;  ///< "in backward of step 3"
  /// It waits for other ranks, and no collective has ended here since then. Nothing: it does its
  /// own work.
  std::optional<std::int64_t> waiting_since_ns;
  CollectiveCall last;
  /// Rises whenever a phase begins or ends, a call begins, a collective ends, or a wait begins.
  std::uint64_t signs = 0;
};

/// Made by the parent before it forks, so a rank that is stopped or hangs can be read all the same.
/// In a launch that was joined a rank has a board of its own, and sees itself alone on it.
class LaunchBoard {
 public:
  explicit LaunchBoard(int ranks);
  ~LaunchBoard();
  LaunchBoard(const LaunchBoard&) = delete;
  LaunchBoard& operator=(const LaunchBoard&) = delete;

  int ranks() const { return ranks_; }
  /// As the rank has it now.
  RankStatus status(int rank) const;
  /// That call of that rank, if it was made and is not long ago.
  std::optional<CollectiveCall> call(int rank, std::uint64_t number) const;
  RankCalls recent_calls(int rank) const;
  /// Call it in the rank's process: from now on this process writes as `rank`, which has done
  /// nothing yet.
  void attach(int rank);

  /// As long as such an object lives, this process's rank waits for others. Does nothing in a
  /// process that is attached to no board.
  class Wait {
   public:
    explicit Wait(std::int64_t since_ns = now_ns());
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
  };
  /// Tells what this process's rank works on, by the phases of the thread that made the object.
  class PhaseWriter final : public PhaseListener {
   public:
    void begin(Phase phase) override;
    void end(Phase phase) override;
  };
  /// Publishes the next call of this process's rank, and compares it with the same call of the
  /// ranks beside it, in a ring, that have made it: if neighbours agree, all do. Throws CommError
  /// if they differ, before anything is sent. Of `size` ranks; does nothing if the board has
  /// another number, or if there is none. One thread at a time may call it.
  static void announce(int size, std::string_view kind, std::int64_t bytes, std::string_view label);
  /// A collective of this process's rank has ended, at that time. Any thread may call it.
  static void note_progress(std::int64_t at_ns = now_ns());

 private:
  struct Slot;
  Slot& slot(int rank) const;

  int ranks_;
  void* memory_;
};

}  // namespace ddprun
