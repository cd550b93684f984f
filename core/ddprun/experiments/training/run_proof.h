// The proof of one run: what is checked before its first step, between steps, and after its last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/proof/lost_updates.h"
#include "ddprun/proof/mean_proof.h"
#include "ddprun/proof/time_proof.h"
#include "ddprun/proof/update_proof.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// At which steps a run looks at itself, besides before the first and at the last: one of the
/// warm-up, but not its last, and three of the measured steps (as far as there are as many), drawn
/// from `seed`, in order.
std::vector<std::int64_t> drawn_steps(std::uint64_t seed, const StepSpan& steps);

/// Makes the checks of a run in the object that trains, with the strategy that was used, between
/// steps and so never in a time that is measured. Where train.measure ends steps before the update,
/// the parameters must stay as they were, and what needs gradients or updates is not checked where
/// there are none. All ranks call it alike. Training thread.
class RunProof {
 public:
  /// All outlive this object. `told`: what the row says.
  RunProof(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
           ProcessState told = process_state());

  /// Before begin(): what the reading of a checkpoint found.
  void enter_resumed(Check check) { enter(std::move(check), first_); }
  /// Before the first step. Draws the moments. Returns false if a check failed: what would be timed
  /// is not what was asked for.
  bool begin();
  /// Before step `index`. If the result is not empty, step() calls it when backward has
  /// synchronized.
  std::function<void()> before_step(std::int64_t index);
  /// Right before and after the call that makes a step.
  void begin_step() { clock_.begin_step(); }
  void end_step() { clock_.end_step(); }
  /// After step `index`, whose loss on this rank was `loss`: its collectives and scalars; after a
  /// drawn step, all the rest.
  void after_step(std::int64_t index, double loss);
  /// After the last step, once its times and memory were read. The moments may be gone then.
  void finish();

  /// Of the step before: the share of its updates that rounding lost, in percent. Nothing: it was
  /// not looked at, or did not update.
  std::optional<double> lost_share() const { return lost_share_; }
  /// Of the tensors in the last step that was looked at (LostUpdateCounter::tensors()).
  std::vector<LostUpdates> lost_updates() const { return lost_.tensors(); }
  /// Each check once. A failure names the strategy, when the check last held, and when it failed.
  const std::vector<Check>& checks() const { return checks_; }
  /// Seconds that all this took so far.
  double seconds() const { return to_s(took_ns_); }
  /// CPU time of the rank's threads meanwhile.
  std::int64_t cpu_ns() const { return cpu_ns_; }

  /// Whether all checks follow step `step`.
  bool looks_at(std::int64_t step) const;

 private:
  struct FirstWrong {
    std::string words = {};  ///< empty: no step yet
    std::int64_t step = 0;
  };
  /// Adds to took_ns_ and cpu_ns_ until it goes.
  class Timed;
  /// Makes the checks that are made before the first step and after some, each until it fails.
  void look(const std::string& when);
  /// What attention and precision compute.
  void look_at_plugins(const std::string& when);
  /// The same after a step: the parameters of all ranks, too.
  void look_again(const std::string& when);
  /// Enters a check that was made once more.
  void enter(Check check, const std::string& when);
  bool failed(const std::string& name) const;
  void watch_update(std::int64_t step, std::uint64_t draw);
  /// What a replay leaves of a step's scale is not known here.
  bool replays(std::int64_t step) const;
  /// How the step that was made differs from what the strategy said; empty: it does not.
  std::string off_plan() const;
  /// After a step that counts_ was begun for.
  void count_lost(std::int64_t index);
  /// Of the parameters that no step updates: all, or those that are frozen.
  void check_unchanged(const std::string& when);
  bool keeps_some() const;
  std::uint64_t hash_kept() const;
  void check_parameters(const std::string& when);
  Agreement agreement() const { return trainer_.data_parallel().context().plan().agreement; }
  void finish_computed();
  void finish_loss();
  void finish_plan();
  void finish_scalars();
  /// Of a periodic strategy: how often its ranks met. One whose ranks never did is a control.
  void finish_meetings();

  const Experiment& experiment_;
  Trainer& trainer_;
  ProcessGroup& group_;
  const ProcessState told_;
  const StepSpan steps_;
  const std::string first_;   ///< "before step 0"
  const std::string last_;    ///< "after step 24, the last"
  const std::string format_;  ///< of the products, as the precision said at first
  std::uint64_t seed_ = 0;
  std::vector<std::int64_t> drawn_;
  std::optional<MeanProof> mean_;      ///< of the step under way, if that is looked at
  std::optional<UpdateProof> update_;  ///< the same, and of the first from before its checks
  std::vector<double> scaled_by_;      ///< Trainer::loss_scales() of it
  LostUpdateCounter lost_;
  bool counts_ = false;  ///< lost_: of the step under way
  std::optional<double> lost_share_;
  std::vector<Check> checks_;
  std::vector<std::string> held_;  ///< of each check: when it held
  FirstWrong off_plan_;            ///< the first step that differs from the plan
  FirstWrong off_scalars_;         ///< the first that updated with other numbers than the YAML's
  FirstWrong left_out_;            ///< the first whose update left parameters out
  std::int64_t updates_ = 0;       ///< that the optimizer has made
  std::int64_t collectives_ = 0;   ///< of all steps
  std::int64_t bytes_ = 0;
  std::vector<StepScalars> scalars_;
  std::string set_in_step_;         ///< find_changed() within a step
  std::uint64_t looks_ = 0;         ///< how often look() was called: each draws anew
  std::uint64_t initial_hash_ = 0;  ///< hash_kept() before step 0
  double last_loss_ = 0;
  std::int64_t meetings_ = 0;   ///< steps after which the ranks of a periodic strategy agreed
  const char* outer_ = "";      ///< what the strategy made of the mean, in words
  bool awaits_meeting_ = true;  ///< of such a strategy: steps are looked at until one comes
  ClockProof clock_;
  std::int64_t took_ns_ = 0;
  std::int64_t cpu_ns_ = 0;
};

}  // namespace ddprun
