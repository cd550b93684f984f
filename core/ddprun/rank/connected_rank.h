// A rank of any kind, from its cores to the results that it hands in.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/run_context.h"
#include "ddprun/rank/affinity.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// What the ranks of all kinds have: cores, a device, the group of all ranks, and a result. All
/// ranks call it alike.
class ConnectedRank {
 public:
  /// Binds the process to its cores and opens its device. `experiment` and `context` outlive this
  /// object. Throws Error.
  ConnectedRank(const Experiment& experiment, const RunContext& context);

  /// Joins the group of all ranks; group() is there from now on. Throws CommError.
  void connect();

  Device& device() { return *device_; }
  ProcessGroup& group() { return *group_; }
  const Affinity& affinity() const { return affinity_; }
  /// What this rank hands in: cores, device and backend stand there once it is connected.
  RankResult& result() { return result_; }
  /// Says when the first step was done. Call it then.
  void first_step_done();
  /// What others take of the rank's cores counts from here on; and up to here.
  void measuring_begins() { meter_.begin(); }
  void measuring_ends();
  /// Of a kind that repeats (`repeat:`), after each sample: what first_step_done(),
  /// measuring_begins() and measuring_ends() do, and the progress.
  void sample_done(const Sample& sample);

  /// Adds the peaks of memory and the device's facts; returns on rank 0 the results of all ranks,
  /// in rank order, as JSON; then disconnects. Call it when nothing uses group() any more.
  std::vector<std::string> finish();
  /// All of it for a kind that does not repeat: connects, lets `measure` fill its only sample,
  /// where the kind's first quantity becomes the time of that in microseconds, and finishes. That
  /// is no benchmark: nothing says how busy or how fast the machine was.
  std::vector<std::string> run_once(const std::function<void(Sample&)>& measure);

 private:
  /// What finish() does once memory, load and speed are known.
  std::vector<std::string> hand_in();

  const Experiment& experiment_;
  const RunContext& context_;
  Affinity affinity_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<ProcessGroup> group_;
  LoadMeter meter_;
  RankResult result_;
};

}  // namespace ddprun
