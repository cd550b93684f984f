// What two experiments must have alike to be compared step by step.
#include <fmt/format.h>

#include <string>

#include "ddprun/base/text.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/model/model_parameters.h"

namespace ddprun {

namespace {

void refuse_other(const Experiment& follows, const char* key, const std::string& other,
                  const std::string& leads, const char* hint) {
  if (other == leads) return;
  refuse(follows, key,
         {.what = "the two have no steps that could be compared",
          .got = said(key, other),
          .expected = said(key, leads) + ", as the one that leads",
          .hint = hint});
}

/// The names and shapes of a model's parameters.
std::string shapes_of(const ModelConfig& model) {
  std::string out;
  for (const ModelParameter& each : model_parameters(model)) {
    out += fmt::format("{} {}, ", each.name, shape_text(each.sizes));
  }
  return out;
}

/// The section without its paths, whose contents are compared.
std::string data_of(const Experiment& experiment) {
  ConfigNode data = *resolve(experiment).find("data");
  std::erase_if(data.map, [](const auto& entry) { return entry.first == "path"; });
  return compact(data);
}

void check_steps(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  const char* const who = "ddprun diff, which looks at each step from step 0 on";
  refuse_unused(experiment, !config.train.resume_from.empty(), "train.resume_from", who);
  refuse_unused(experiment, config.train.measure != StepExtent::step, "train.measure", who);
  refuse_unused(experiment, config.execution.mode != ExecutionMode::eager, "execution.mode", who);
  refuse_unused(experiment, config.optimizer.overlap, "optimizer.overlap",
                "ddprun diff, which updates both with the same gradients");
}

/// One tensor would be compared with as many as there are ranks.
void check_one_gradient(const Experiment& experiment, const PluginRegistry& registry) {
  check_agreement(experiment, registry, {Agreement::exact, Agreement::lossy},
                  {.what = "diff compares gradients and weights that all ranks have alike",
                   .got = "whose ranks go their own ways between meetings",
                   .expected = "a strategy whose ranks agree in each step"});
}

}  // namespace

void Training::check_lockstep(const Experiment& leads, const Experiment& follows,
                              const PluginRegistry& registry) const {
  check_one_gradient(follows, registry);
  for (const Experiment* each : {&leads, &follows}) check_steps(*each);
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const TrainingConfig& first = ddprun::training(leads);
  const TrainingConfig& other = ddprun::training(follows);
  if (shapes_of(first.model) != shapes_of(other.model)) {
    refuse(follows, "model",
           {.what = "the two have no tensors that could be compared",
            .got = "another model",
            .expected = "parameters of the same names and shapes",
            .hint = "`model:` may differ in kernels, attention, recompute and unit"});
  }
  refuse_other(follows, "model.context_length", number(other.model.context_length),
               number(first.model.context_length), "both read the same tokens");
  refuse_other(follows, "train.global_batch", number(global_batch(follows)),
               number(global_batch(leads)), "set train.global_batch in both");
  refuse_other(follows, "train.seed", number(other.train.seed), number(first.train.seed),
               "both read the same tokens");
  refuse_other(follows, "data", data_of(follows), data_of(leads), "both read the same tokens");
  if (planned_hash(leads, kDataPath) == planned_hash(follows, kDataPath)) return;
  refuse_other(follows, "data.path", "with other contents", "with these contents",
               "both read the same tokens");
}

}  // namespace ddprun
