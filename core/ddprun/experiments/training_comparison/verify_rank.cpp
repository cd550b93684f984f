// `ddprun verify`: trains by many ranks, repeats each step in one process that starts from the
// run's parameters of that step, and measures the differences.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/config/run_context.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

using nlohmann::json;

struct Spread {
  double largest = 0, mean = 0;
};

/// What a gradient may be off by, of its parameter's largest: this always, then thirty times what
/// the one process is off by from float64. But a gradient that is halved is off by 0.5.
constexpr double kLeastBound = 1e-5, kBoundInRoundings = 30, kLargestBound = 0.25;

/// The largest of some differences, and whose it is. A NaN is largest.
struct Largest {
  double value = 0;
  std::string parameter = {};
  double mean = 0;  ///< of the means that were added
  int added = 0;

  void add(Spread other, const std::string& name) {
    mean += (other.mean - mean) / ++added;
    if (!parameter.empty() && (std::isnan(value) || other.largest <= value)) return;
    value = other.largest;
    parameter = name;
  }
};

/// How far a step is from one process's: over all parameters, or of one over all steps.
struct Differences {
  /// Of |g(run) - g(one process)|, relative to the parameter's largest |g(one process)|.
  Largest gradient = {};
  /// Of |p(run) - p(one process)| / (|p before| + |p(one process)|), after an update by the same
  /// gradients, those of the run, from the same moments: what the strategy did to the update.
  Largest update = {};
  /// Of |p(run) - p(one process)| after an update by the gradients of each. SGD only: AdamW turns
  /// the rounding of a gradient near zero into a whole step.
  std::optional<Largest> parameter = {};
};

struct VerifiedStep {
  std::int64_t step = 0;
  std::vector<double> losses = {};  ///< of each rank
  double loss = 0;                  ///< of the run: their mean
  double loss_one_process = 0;
  /// Nothing: gradients overflowed, or it was a replay that scaled its gradients in place.
  std::optional<Differences> differences = {};
};

/// The single process has nobody to synchronize with.
class Alone : public Strategy {
 public:
  void finish_backward() override {}
};

Experiment on_one_process(Experiment experiment) {
  TrainingConfig& config = training(experiment);
  config.train.global_batch = global_batch(experiment);
  config.train.batch_per_rank = 0;
  config.train.accumulate = 1;
  config.model.kernels = KernelSet::reference;
  config.model.recompute = {};
  config.optimizer.overlap = false;
  config.execution = {};
  experiment.world.size = 1;
  return experiment;
}

/// Laid out as `to`: padding depends on the number of ranks; as much of it goes along as both have.
at::Tensor laid_out(const at::Tensor& flat, const ParameterLayout& from,
                    const ParameterLayout& to) {
  if (!flat.defined()) return flat;
  at::Tensor out = at::zeros({to.all().size()}, flat.options());
  for (int index = 0; index < to.count(); ++index) {
    const std::int64_t size =
        std::min(from.with_padding(index).size(), to.with_padding(index).size());
    out.narrow(0, to.range(index).begin, size).copy_(flat.narrow(0, from.range(index).begin, size));
  }
  return out;
}

at::Tensor part(const at::Tensor& flat, Range range) {
  return flat.narrow(0, range.begin, range.size()).to(at::kDouble);
}

Spread spread(const at::Tensor& values) {
  if (values.numel() == 0) return {};
  return {values.max().item<double>(), values.mean().item<double>()};
}

/// What clipping multiplies gradients by.
double clip_factor(const at::Tensor& gradients, double clip_norm) {
  if (clip_norm <= 0) return 1;
  return std::min(1.0, clip_norm / gradients.to(at::kDouble).norm().item<double>());
}

/// One step of a run, as rank 0 has it. Flat tensors, float32.
struct RunStep {
  std::int64_t index = 0;
  at::Tensor before = {};     ///< the parameters before the step
  at::Tensor gradients = {};  ///< the mean over the ranks; undefined: not known
  at::Tensor after = {};      ///< the parameters after it
  bool skipped = false;       ///< gradients overflowed
};

/// Trains on the whole global batch in one forward, by PyTorch's own operators: other kernels,
/// other matrix shapes, other orders of summation, so that nothing but the mathematics is shared.
class OneProcess {
 public:
  /// `device` outlives this object.
  OneProcess(const Experiment& experiment, const PluginRegistry& registry, Device& device)
      : whole_(on_one_process(experiment)),
        group_(connect_thread(make_thread_store(), 0, 1, whole_.world.comm, device)) {
    RunPlugins plugins = make_plugins(registry, whole_);
    plugins.strategy = std::make_shared<Alone>();
    trainer_ = std::make_unique<Trainer>(whole_, plugins, *group_);
    parameters_.resize(trainer_->data_parallel().buffers().count());
  }

  /// Does the step from the run's parameters, laid out as `layout`. The update takes the run's
  /// gradients, so the moments stay those of the run. Sets the step's loss_one_process and
  /// differences.
  void repeat(const RunStep& run, const ParameterLayout& layout, VerifiedStep& out) {
    FlatBuffers& buffers = trainer_->data_parallel().buffers();
    RunStep step = run;
    for (at::Tensor* each : {&step.before, &step.gradients, &step.after}) {
      *each = laid_out(*each, layout, buffers);
    }
    set_parameters(step.before);
    at::Tensor own;
    const Sample sample = trainer_->step(step.index, [&] {
      if (!step.gradients.defined()) return;
      own = trainer_->gradients();
      trainer_->set_gradients(step.gradients);
    });
    out.loss_one_process = sample[training().loss];
    if (!own.defined() || step.skipped) return;
    out.differences.emplace();
    // A gradient of terms that cancel, as the bias of keys has, is what rounding leaves of them.
    const double least = spread(own.abs()).largest / 10;
    for (int index = 0; index < buffers.count(); ++index) {
      const Spread off = gradient_off(step.gradients, own, least, index);
      for (Differences* each : {&*out.differences, &parameters_[index]}) {
        each->gradient.add(off, buffers.name(index));
      }
    }
    enter_updates(step, own, *out.differences);
    if (out.differences->gradient.value > bound_) raise_bound(step.before, own, least);
  }

  /// Of each parameter over all steps, in the order of the buffers.
  const std::vector<Differences>& parameters() const { return parameters_; }
  /// What differences of gradients pass; a step whose rounding goes beyond it has raised it.
  double bound() const { return bound_; }

 private:
  void set_parameters(const at::Tensor& values) {
    FlatBuffers& buffers = trainer_->data_parallel().buffers();
    buffers.parameters(buffers.all()).copy_(values);
    buffers.parameters_changed(buffers.all());
  }

  /// Of a parameter, relative to its largest |expected|, `least` at least.
  Spread gradient_off(const at::Tensor& got, const at::Tensor& expected, double least,
                      int index) const {
    // What stands in the padding counts in the norm.
    const Range range = trainer_->data_parallel().buffers().with_padding(index);
    const at::Tensor right = part(expected, range);
    const Spread off = spread((part(got, range) - right).abs());
    if (off.largest == 0) return {};  // nothing off zeros is no difference
    const double size = std::max(spread(right.abs()).largest, least);
    return {off.largest / size, off.mean / size};
  }

  /// Of the last step's batch, by PyTorch's operators in float64 and the parameters as they are.
  at::Tensor exact_gradients() {
    DataParallel& data_parallel = trainer_->data_parallel();
    const Loss loss = data_parallel.forward(trainer_->losses_of(trainer_->last_batch()).exact);
    data_parallel.backward(loss);
    const at::Tensor gradients = unscaled_gradients(data_parallel, loss.scaled_by());
    data_parallel.drop_gradients();
    return gradients;
  }

  /// `own`: this process's gradients by the parameters `before`.
  void raise_bound(const at::Tensor& before, const at::Tensor& own, double least) {
    set_parameters(before);
    const FlatBuffers& buffers = trainer_->data_parallel().buffers();
    const at::Tensor exact = exact_gradients();
    double rounding = 0;
    for (int index = 0; index < buffers.count(); ++index) {
      rounding = std::max(rounding, gradient_off(exact, own, least, index).largest);
    }
    bound_ = std::max(bound_, std::min(kBoundInRoundings * rounding, kLargestBound));
  }

  void enter_updates(const RunStep& step, const at::Tensor& own, Differences& out) {
    const FlatBuffers& buffers = trainer_->data_parallel().buffers();
    const double lr = trainer_->last_scalars().lr;
    const OptimizerConfig& optimizer = training(whole_).optimizer;
    const double own_factor = clip_factor(own, optimizer.clip_norm);
    const double run_factor = clip_factor(step.gradients, optimizer.clip_norm);
    const bool sgd = optimizer.name == OptimizerKind::sgd;
    const std::vector<GroupSettings> groups = group_settings(buffers.names(), optimizer);
    for (int index = 0; index < buffers.count(); ++index) {
      const Range range = buffers.range(index);
      const std::string& name = buffers.name(index);
      const at::Tensor expected = part(buffers.parameters(buffers.all()), range);
      const at::Tensor off = part(step.after, range) - expected;
      const at::Tensor size = part(step.before, range).abs() + expected.abs();
      // Nothing off zero is no difference.
      const Spread update = spread(at::where(off.eq(0), off, off.abs() / size));
      // An update of SGD is linear in the gradients, so one by its own needs no second optimizer.
      const at::Tensor other =
          (part(own, range) * own_factor - part(step.gradients, range) * run_factor) *
          (lr * groups[index].lr_scale);
      for (Differences* each : {&out, &parameters_[index]}) {
        each->update.add(update, name);
        if (!sgd) continue;
        if (!each->parameter) each->parameter.emplace();
        each->parameter->add(spread((off + other).abs()), name);
      }
    }
  }

  const Experiment whole_;
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Differences> parameters_;
  double bound_ = kLeastBound;
};

/// What differs between ranks, or on one: "step 3: parameters_equal: ...". The first of each kind.
class RankFaults {
 public:
  explicit RankFaults(const std::string& strategy) : strategy_(strategy) {}

  void enter(const Check& check, std::int64_t step) {
    if (check.status == CheckStatus::passed || !failed_.insert(check.name).second) return;
    words_.push_back(
        fmt::format("step {}: {}: strategy {}: {}", step, check.name, strategy_, check.detail));
  }

  const std::vector<std::string>& words() const { return words_; }

 private:
  std::string strategy_;
  std::set<std::string> failed_;
  std::vector<std::string> words_;
};

/// One step of the run, compared between the ranks and, on rank 0, with one process (else null).
VerifiedStep verify_step(Trainer& trainer, ProcessGroup& group, OneProcess* alone,
                         std::int64_t index, RankFaults& faults) {
  const FlatBuffers& buffers = trainer.data_parallel().buffers();
  DataParallel& data_parallel = trainer.data_parallel();
  // What ranks own in parts takes all of them to put together.
  const bool looks = alone != nullptr || !buffers.owns_all();
  RunStep run{.index = index};
  if (looks) run.before = whole_parameters(data_parallel, buffers.all()).clone();
  GradientHashes hashes;
  const auto look = [&] {
    hashes = hash_gradients(buffers);
    if (looks) run.gradients = trainer.gradients();
  };
  const Sample sample = trainer.step(index, look);
  const StepScalars scalars = trainer.last_scalars();
  // A replay does not stop for us. Its gradients are still there unless they were scaled in place.
  const bool replayed = !run.gradients.defined() && hashes.empty();
  const bool known = !replayed || scalars.factor == 1;
  if (replayed && known) look();
  if (known) faults.enter(check_gradients_equal(buffers, group, hashes), index);
  faults.enter(check_parameters_equal(trainer.data_parallel(), group), index);
  faults.enter(check_compute_copy(trainer.data_parallel(), group), index);

  VerifiedStep out{.step = index, .losses = of_all_ranks(group, sample[training().loss])};
  for (const double loss : out.losses) out.loss += loss / static_cast<double>(out.losses.size());
  if (looks) run.after = whole_parameters(data_parallel, buffers.all());
  if (alone == nullptr) return out;
  run.skipped = scalars.skipped;
  alone->repeat(run, buffers, out);
  return out;
}

json to_json(const Largest& largest) {
  return {{"value", largest.value}, {"mean", largest.mean}, {"parameter", largest.parameter}};
}

json to_json(const Differences& differences) {
  json out = {{"gradient", to_json(differences.gradient)}, {"update", to_json(differences.update)}};
  if (differences.parameter) out["parameter"] = to_json(*differences.parameter);
  return out;
}

json to_json(const VerifiedStep& step) {
  return {{"step", step.step},
          {"losses", step.losses},
          {"loss", step.loss},
          {"loss_one_process", step.loss_one_process},
          {"differences", step.differences ? to_json(*step.differences) : json()}};
}

}  // namespace

/// Trains all steps as run_rank() does. After each, rank 0 does the same step in one process,
/// without any strategy, by PyTorch's own operators and as many threads, while the others wait: so
/// differences do not add up over steps. It holds besides its own share that process's parameters,
/// gradients, moments and activations of the whole batch, and a copy of parameters and gradients.
json Training::verify_rank(const Experiment& configured, const PluginRegistry& registry,
                           const RunContext& context) const {
  Experiment experiment = configured;
  ddprun::training(experiment).train.measure = StepExtent::step;  // what is measured may be a part
  const std::int64_t steps = ddprun::training(experiment).train.all_steps();
  ConnectedRank rank(experiment, context);
  rank.connect();
  json out = {{"steps", json::array()}, {"parameters", json::array()}};
  {
    ProcessGroup& group = rank.group();
    RankFaults faults(experiment.plugin(PluginKind::strategy).name);
    Trainer trainer(experiment, make_plugins(registry, experiment), group);
    faults.enter(check_initial_parameters(trainer.data_parallel(), group, trainer.initial_values()),
                 0);
    std::optional<OneProcess> alone;
    if (group.rank() == 0) alone.emplace(experiment, registry, rank.device());
    for (std::int64_t index = 0; index < steps; ++index) {
      out["steps"].push_back(
          to_json(verify_step(trainer, group, alone ? &*alone : nullptr, index, faults)));
    }
    trainer.data().check_unchanged();
    out["faults"] = faults.words();
    if (alone) {  // in the order of the forward pass
      out["bound"] = alone->bound();
      for (const Differences& each : std::views::reverse(alone->parameters())) {
        out["parameters"].push_back(to_json(each));
      }
    }
  }
  rank.group().shutdown();
  return context.info.rank == 0 ? out : json();
}

}  // namespace ddprun
