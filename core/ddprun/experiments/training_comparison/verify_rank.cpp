// Trains by many ranks, and repeats each step in one process.
#include "ddprun/experiments/training_comparison/verify_rank.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ddprun/experiments/training/training.h"
#include "ddprun/experiments/training_comparison/one_process.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "ddprun/rank/affinity.h"
#include "ddprun/rank/emulated_ranks.h"

namespace ddprun {

namespace {

/// Makes the checks of one step that compare the ranks, and keeps the first failure of each kind.
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

using nlohmann::json;

json to_json(const Largest& largest) {
  return {{"value", largest.value}, {"mean", largest.mean}, {"parameter", largest.parameter}};
}

json to_json(const Differences& differences) {
  json out = {{"gradient", to_json(differences.gradient)}, {"update", to_json(differences.update)}};
  if (differences.parameter) out["parameter"] = to_json(*differences.parameter);
  return out;
}

}  // namespace

json to_json(const Verification& found) {
  json out = {{"steps", json::array()}, {"parameters", json::array()}, {"faults", found.faults}};
  for (const VerifiedStep& step : found.steps) {
    out["steps"].push_back({{"step", step.step},
                            {"losses", step.losses},
                            {"loss", step.loss},
                            {"loss_one_process", step.loss_one_process},
                            {"differences", nullptr}});
    if (step.differences) out["steps"].back()["differences"] = to_json(*step.differences);
  }
  for (const Differences& each : found.parameters) out["parameters"].push_back(to_json(each));
  return out;
}

void Largest::add(Spread other, const std::string& name) {
  mean += (other.mean - mean) / ++added;
  if (!parameter.empty() && (std::isnan(value) || other.largest <= value)) return;
  value = other.largest;
  parameter = name;
}

Verification verify_rank(const Experiment& configured, const PluginRegistry& registry,
                         const RunContext& context) {
  Experiment experiment = configured;
  training(experiment).train.measure = StepExtent::step;  // of which what is measured may be a part
  const RankInfo& info = context.info;
  set_affinity(experiment.world, info);
  const std::int64_t steps = training(experiment).train.all_steps();
  const auto device = open_rank_device(experiment.world, info);
  const auto group = connect(info, experiment.world.comm, context.run_id, host_identity(), *device);
  Verification out;
  {
    const std::string& strategy = experiment.plugin(PluginKind::strategy).name;
    RankFaults faults(strategy);
    Trainer trainer(experiment, make_plugins(registry, experiment), *group);
    faults.enter(
        check_initial_parameters(trainer.data_parallel(), *group, trainer.initial_values()), 0);
    std::optional<OneProcess> alone;
    if (info.rank == 0) alone.emplace(experiment, registry, *device);
    for (std::int64_t index = 0; index < steps; ++index) {
      out.steps.push_back(verify_step(trainer, *group, alone ? &*alone : nullptr, index, faults));
    }
    trainer.data().check_unchanged();
    if (alone) out.parameters = {alone->parameters().rbegin(), alone->parameters().rend()};
    out.faults = faults.words();
  }
  group->shutdown();
  return info.rank == 0 ? out : Verification{};
}

json Training::verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                           const RunContext& context) const {
  return to_json(ddprun::verify_rank(experiment, registry, context));
}

}  // namespace ddprun
