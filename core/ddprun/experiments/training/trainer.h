// One rank's model, data and data parallelism, advanced step by step; every step is timed.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ddprun/data/data.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/model/transformer.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/gradient_proof.h"
#include "ddprun/proof/initial_values.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// The numbers by which a step scales its update. They must be equal on all ranks.
struct StepScalars {
  double lr = 0;
  double gradient_norm = 0;  ///< before clipping; 0: nothing was clipped
  double factor = 1;         ///< of each gradient: clipping, and the loss scaled back
  bool skipped = false;      ///< gradients overflowed
};

/// Where training begins, if not at step 0 with parameters that are drawn.
struct Beginning {
  std::int64_t step = 0;
  /// Called on rank 0: writes the model's parameters. Empty: they stay as drawn.
  std::function<void(const std::vector<NamedTensor>& parameters)> load = {};
};

/// The data that the experiment trains on. Throws Error.
std::unique_ptr<DataSource> open_training_data(const Experiment& experiment);

/// Training::run_rank() and verify_rank() call it step by step. Use it on the training thread only.
class Trainer {
 public:
  /// `experiment` and `group` outlive the trainer. The rank takes its slice of the experiment's
  /// global batch by group.rank() of group.size(), in micro-batches of micro_batch(experiment)
  /// sequences. On ranks other than 0 parameters are NaN until the strategy sends those of rank 0.
  /// On device meta there is no data: batches have sizes alone. Throws Error.
  Trainer(const Experiment& experiment, RunPlugins plugins, ProcessGroup& group,
          const Beginning& beginning = {});

  /// Runs step `index` (0 is the first warm-up step), timed. `on_synchronized` (may be empty) is
  /// called when gradients are averaged, and neither clipped nor (without optimizer.overlap) used
  /// for an update; its time is not the step's. Steps that replay a graph do not call it. The step
  /// goes as far as train.measure says, and the sample lacks the times of what it does not reach.
  Sample step(std::int64_t index, const std::function<void()>& on_synchronized = {});
  /// The same without a sample, for a device whose values nobody can read (meta).
  void untimed_step(std::int64_t index, const std::function<void()>& on_synchronized = {});

  /// For on_synchronized: a copy of the averaged gradients, (elements,) float32, divided by the
  /// scale of the loss. Where ranks own parts all of them call it.
  at::Tensor gradients() const;
  /// For on_synchronized: what the loss of each of the step's micro-batches was multiplied by;
  /// empty: the precision scales none.
  std::vector<double> loss_scales() const;
  /// For on_synchronized: the step goes on with these, laid out as gradients(), of which a rank
  /// takes what it owns.
  void set_gradients(const at::Tensor& gradients);

  /// The collectives of the last step, in the order of enqueueing.
  const std::vector<CollectiveRecord>& last_records() const { return records_; }
  /// Those that are planned for a step (DataParallel::planned()).
  std::vector<PlannedCollective> planned() const { return data_parallel_->planned(micro_batches_); }
  StepScalars last_scalars() const;
  /// The mean loss of a batch, by the parameters as they are now and without gradients.
  double loss_of(const Batch& batch);
  /// The same of the last step's micro-batches.
  double last_loss_again();
  /// For check_gradients_computed(): of a batch on the device. This object outlives them.
  LossesOfBatch losses_of(const Batch& batch);
  /// The micro-batches of the last step, on the device, and the last of them.
  const std::vector<Batch>& last_batches() const { return inputs_; }
  const Batch& last_batch() const { return inputs_.back(); }
  /// The last step, whose number it does not know.
  StepTimeline timeline() const;

  /// `watch` is called with what each of the model's units gives in a step's forwards, and in
  /// backward where it computes them again. Not in steps that replay a graph.
  using UnitWatch = std::function<void(int unit, std::int64_t micro_batch, const at::Tensor& out)>;
  void watch_units(UnitWatch watch) { watch_units_ = std::move(watch); }

  /// What the model had before plugins saw it; null on device meta.
  const InitialValues* initial_values() const { return initial_ ? &*initial_ : nullptr; }
  DataParallel& data_parallel() { return *data_parallel_; }
  /// (1, T, V) of ids (1, T) on the CPU, by the parameters as they are, without gradients. All
  /// ranks call it alike.
  at::Tensor logits_of(const at::Tensor& ids);
  const DataSource& data() const { return *data_; }
  const RunPlugins& plugins() const { return plugins_; }
  const StepSpan& steps() const { return steps_; }

 private:
  /// On rank 0, where they are not drawn.
  void write_weights(const Beginning& beginning);
  /// Marks of one micro-batch: its forward begins where the one before ends.
  struct MicroBatchMarks {
    Mark forward_end = 0;
    BackwardMarks backward = {};
  };
  /// What run_step() leaves. A captured step leaves it once, and each replay renews the values.
  struct StepState {
    std::vector<MicroBatchMarks> micro_batches = {};
    Mark resumed = 0;  ///< on_synchronized, called when the last was synchronized, was over
    std::int64_t others_cpu_ns = 0;  ///< CPU time of on_synchronized, which is not the step's
    Mark end = 0;
    at::Tensor loss_sum = {};  ///< over micro-batches
    std::vector<at::Tensor> loss_scales = {};
    StepOutcome outcome = {};
  };

  /// Copies the step's batches into inputs_, without waiting for the device.
  void load_inputs(std::int64_t index);
  /// How large what the strategy keeps back is beside the step's gradients; empty: it keeps
  /// nothing, or these are all zero.
  std::optional<double> error_feedback() const;
  /// Runs forward, backward, synchronization and update of the step that was loaded and begun.
  void run_step(const std::function<void()>& on_synchronized);
  void run_micro_batch(std::int64_t micro_batch);
  /// Adds the loss of one more micro-batch.
  void enter_loss(const at::Tensor& loss);
  /// Runs run_step() as a graph: the first call captures it, and each call replays it.
  void replay_step();
  /// A time of the step as it were if on_synchronized had taken none.
  std::int64_t moment(std::int64_t time_ns) const;
  /// Turns marks and records into times, after the step. `begin` is the begin of the step.
  void fill_times(Mark begin, Sample& sample);
  /// Fills in the step's collectives. What ran before the last gradient overlapped backward.
  void fill_communication(std::int64_t last_gradient_ns, Sample& sample);

  const Experiment& experiment_;
  const TrainingConfig& config_;
  const StepSpan steps_;
  ProcessGroup& group_;
  Device& device_;
  RunPlugins plugins_;
  Transformer model_;
  std::unique_ptr<DataSource> data_;
  std::optional<InitialValues> initial_ = {};
  std::unique_ptr<DataParallel> data_parallel_;
  std::int64_t micro_batches_;
  /// The batch of each micro-batch, on the device. On a GPU they stay in the same memory.
  std::vector<Batch> inputs_;
  double lr_ = 0.0;
  StepState state_;
  std::int64_t micro_batch_ = 0;  // of the step, whose forward or backward is under way
  UnitWatch watch_units_ = {};
  std::unique_ptr<CapturedWork> graph_;
  std::vector<CollectiveRecord> records_;
  std::int64_t step_begin_ns_ = 0;
};

}  // namespace ddprun
