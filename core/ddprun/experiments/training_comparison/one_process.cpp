// Repeats a step of the run in one process, and measures the differences.
#include "ddprun/experiments/training_comparison/one_process.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/experiments/training/training.h"
#include "ddprun/proof/proof.h"

namespace ddprun {

namespace {

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

/// Elements laid out as `from`, laid out as `to`: padding depends on the number of ranks. As much
/// of it goes along as both have.
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

}  // namespace

OneProcess::OneProcess(const Experiment& experiment, const PluginRegistry& registry, Device& device)
    : whole_(on_one_process(experiment)),
      group_(connect_thread(make_thread_store(), 0, 1, whole_.world.comm, device)) {
  RunPlugins plugins = make_plugins(registry, whole_);
  plugins.strategy = std::make_shared<Alone>();
  trainer_ = std::make_unique<Trainer>(whole_, plugins, *group_);
  parameters_.resize(trainer_->data_parallel().buffers().count());
}

void OneProcess::repeat(const RunStep& run, const ParameterLayout& layout, VerifiedStep& out) {
  FlatBuffers& buffers = trainer_->data_parallel().buffers();
  RunStep step = run;
  for (at::Tensor* each : {&step.before, &step.gradients, &step.after}) {
    *each = laid_out(*each, layout, buffers);
  }
  buffers.parameters(buffers.all()).copy_(step.before);
  buffers.parameters_changed(buffers.all());
  at::Tensor own;
  const Sample sample = trainer_->step(step.index, [&] {
    if (!step.gradients.defined()) return;
    own = trainer_->gradients();
    trainer_->set_gradients(step.gradients);
  });
  out.loss_one_process = sample[training().loss];
  if (!own.defined() || step.skipped) return;
  out.differences.emplace();
  enter_gradients(step, own, *out.differences);
  enter_updates(step, own, *out.differences);
}

void OneProcess::enter_gradients(const RunStep& step, const at::Tensor& own, Differences& out) {
  const FlatBuffers& buffers = trainer_->data_parallel().buffers();
  // A gradient of terms that cancel, as the bias of keys has, is what rounding leaves of them.
  const double least = spread(own.abs()).largest / 10;
  for (int index = 0; index < buffers.count(); ++index) {
    const Range range = buffers.with_padding(index);  // what stands there counts in the norm
    const at::Tensor expected = part(own, range);
    const Spread off = spread((part(step.gradients, range) - expected).abs());
    const double size = std::max(spread(expected.abs()).largest, least);
    // Nothing off zeros is no difference.
    const Spread relative =
        off.largest == 0 ? Spread() : Spread(off.largest / size, off.mean / size);
    for (Differences* each : {&out, &parameters_[index]}) {
      each->gradient.add(relative, buffers.name(index));
    }
  }
}

void OneProcess::enter_updates(const RunStep& step, const at::Tensor& own, Differences& out) {
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

}  // namespace ddprun
