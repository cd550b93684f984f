// One collective on the buffers of one rank: they are filled, it is called, its result is compared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/experiments/collectives/collectives_config.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// All ranks make the same trial and call it alike, round by round: fill(), call(), then wrong() if
/// wanted. Use it on one thread.
class CollectiveTrial {
 public:
  virtual ~CollectiveTrial() = default;
  /// Writes the input of a round, every element, and on ranks that get a result over it what must
  /// not be left there.
  virtual void fill(std::int64_t round) = 0;
  /// Runs the collective. It returns when the result is there (on a GPU: in the stream's order).
  virtual void call() = 0;
  /// How many elements of this rank's result are wrong, all of them compared.
  virtual std::int64_t wrong(std::int64_t round) = 0;
  /// How many elements wrong() compares.
  virtual std::int64_t compared() const = 0;
};

/// The largest integer up to which all integers are exact in sums and results of that type.
std::int64_t largest_exact(ElementType type);

/// The levels of the pattern that the buffers are filled with, beside 0, so that no sum of that
/// many ranks is rounded; 0: even one level would be.
std::int64_t pattern_levels(const CollectivesConfig& config, std::int64_t ranks);

/// A trial on buffers; of a barrier one that has none, and in which wrong() tries whether a rank
/// leaves before the last one came (it calls barriers of its own). pattern_levels() is above 0.
std::unique_ptr<CollectiveTrial> make_collective_trial(const CollectivesConfig& config,
                                                       ProcessGroup& group);

/// Adds to `result` this rank's samples (of kind collectives), the checks "data_before_timing" and
/// "data_after_timing", and the timeline of the last sample. All ranks call it alike; rank 0's
/// clock ends it. `on_sample` is called after each sample.
void measure_trial(CollectiveTrial& trial, ProcessGroup& group, const RepeatConfig& repeat,
                   const std::function<void(const Sample&)>& on_sample, RankResult& result);

}  // namespace ddprun
