// What this rank's program told of each step, held against what the others' told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// A step whose micro-batches, learning rate or clipping are not the same on all ranks trains
/// something else, and its collectives need not show it. The ranks compare texts through the store:
/// in steps 0, 1, 2, 4, 8 and so on, in each 1,024th, when a count changes that others count on,
/// and when they are asked to. Training thread.
class StepsAlike {
 public:
  /// `group` outlives it. `each_exchanges`: each micro-batch has collectives of its own, so ranks
  /// that count otherwise than in the step before compare after the first, before more meet others.
  StepsAlike(ProcessGroup& group, bool each_exchanges)
      : group_(group), each_exchanges_(each_exchanges), compares_(group.size() > 1) {}

  /// All ranks make the steps of one file: nothing is compared.
  void leave() { compares_ = false; }

  /// After each backward. Throws as compare() does. Most strategies' ranks have just met in
  /// collectives, and noticed there if one died.
  void backward_done(MicroBatch micro_batch);
  /// The step ends with an update, or without.
  void end(double lr, double clip_norm);
  void drop();
  /// Of the steps that are made: throws Error, on all ranks, that names the first that two ranks
  /// were told differently. All ranks call it.
  void compare() { compare_with({}); }

 private:
  bool due() const;
  void compare_with(const std::string& begun);
  void made(const std::string& end);

  ProcessGroup& group_;
  const bool each_exchanges_;
  bool compares_;  // with others, if there are some
  bool begun_ = false;
  std::int64_t step_ = 0;  // the next, or the one under way
  std::int64_t micro_batches_ = 0;
  std::vector<std::string> steps_;  // a line for each since they were compared
};

}  // namespace ddprun
