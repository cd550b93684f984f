// What training asks of plugins and machine, and what its ranks do.
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/data/data.h"
#include "ddprun/data/text_codec.h"
#include "ddprun/device/device_library.h"
#include "ddprun/experiments/training/dry_step.h"
#include "ddprun/experiments/training/resumption.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/run_saver.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/pretrained_weights.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/plugin/ask_plugin.h"

namespace ddprun {

namespace {

void ask_plugins(const RunPlugins& plugins, const Experiment& experiment,
                 const RunDescription& run) {
  const auto ask = [&](PluginKind kind, const Plugin& plugin) {
    ask_plugin(plugin, run, experiment.plugin(kind).options.origin);
  };
  ask(PluginKind::precision, *plugins.precision);
  ask(PluginKind::strategy, *plugins.strategy);
  ask(PluginKind::attention, *plugins.attention);
}

/// One process has nothing to compare with what is neither the mean nor equal on all ranks.
void check_mean(const Experiment& experiment, const PluginRegistry& registry) {
  check_agreement(experiment, registry, {Agreement::exact},
                  {.what = "verify compares each gradient with that of one process",
                   .got = "which declares other gradients than the mean",
                   .expected = "a strategy whose gradients become the mean"});
}

std::uint64_t hash_of(const DataConfig& data, const ModelConfig& model) {
  return open_data(data, model.vocab_size, model.context_length, 0)->content_hash();
}

KindContent content(const char* key, const DataConfig& data, const ModelConfig& model) {
  std::vector<std::string> identity = {name_of(data.source), name_of(data.token_type),
                                       std::to_string(model.vocab_size),
                                       std::to_string(model.context_length)};
  identity.insert(identity.end(), data.path.begin(), data.path.end());
  for (const double weight : data.weights) identity.push_back(fmt::format("{}", weight));
  return {key, std::move(identity), [data, model] { return hash_of(data, model); }};
}

std::string place_of(const std::vector<FilePiece>& pieces) {
  std::string place;
  for (const auto& [path, first, count] : pieces) {
    place += fmt::format("{}{} {}..{}", place.empty() ? "" : ", ", path, first, first + count - 1);
  }
  return place.empty() ? "random tokens" : place;
}

/// Input and last target of the only sample of a batch.
std::int64_t documents_of(const Batch& batch) {
  if (!batch.first_keys.defined()) return 0;
  const auto* const first_keys = batch.first_keys.const_data_ptr<std::int32_t>();
  std::int64_t documents = 0;
  for (std::int64_t token = 0; token < batch.first_keys.numel(); ++token) {
    documents += first_keys[token] == token ? 1 : 0;
  }
  return documents;
}

std::int64_t targets_of(const Batch& batch) {
  const auto* const targets = batch.targets.const_data_ptr<std::int64_t>();
  return std::count_if(targets, targets + batch.targets.numel(),
                       [](std::int64_t target) { return target >= 0; });
}

std::string text_of(const Batch& batch, const TextCodec& codec) {
  if (!codec.known()) return {};
  std::vector<std::int64_t> tokens;
  const auto add = [&](const at::Tensor& of) {
    const auto* const begin = of.const_data_ptr<std::int64_t>();
    tokens.insert(tokens.end(), begin, begin + of.numel());
  };
  add(batch.ids);
  const at::Tensor last = batch.targets.narrow(1, batch.targets.size(1) - 1, 1);
  if (last.item<std::int64_t>() >= 0) add(last);
  return codec.decode(tokens);
}

/// Throws ConfigError if data.tokenizer has tokens that the model does not.
void check_tokenizer(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  const TextCodec codec(config.data);
  if (!codec.known() || codec.size() <= config.model.vocab_size) return;
  refuse(experiment, "data.tokenizer",
         {.what = "the tokenizer has more tokens than the model",
          .got = fmt::format("{} tokens", codec.size()),
          .expected = fmt::format("model.vocab_size {} at most", config.model.vocab_size),
          .hint = fmt::format("model: {{vocab_size: {}}}", codec.size())});
}

/// Throws PluginRefusal if the attention would look beyond a document.
void check_documents(const Experiment& experiment, const Attention& attention) {
  if (training(experiment).data.document_end < 0 || attention.takes_documents()) return;
  throw PluginRefusal({.what = "the attention does not keep documents apart",
                       .where = origin_of(experiment.document, "data.document_end"),
                       .got = attention.called,
                       .expected = "an attention with takes_documents()",
                       .hint = "take another attention, or leave data.document_end out"});
}

/// Throws PluginRefusal if the backend cannot add up gradients. What replaces them is float32.
void check_reduction(const Experiment& experiment, const RunPlugins& plugins,
                     at::ScalarType gradients) {
  const BackendKind backend = experiment.world.comm.backend;
  const std::string lacks =
      backend_lacks(backend, CollectiveKind::all_reduce, gradients, ReduceOp::avg);
  if (lacks.empty() || training(experiment).train.measure == StepExtent::forward) return;
  const Plan plan = plan_of(experiment, plugins);
  if (plan.agreement != Agreement::exact) return;
  // On several ranks that is a plan which is known at run time only.
  if (plan.collectives.empty() && experiment.world.size == 1) return;
  const PluginChoice& precision = experiment.plugin(PluginKind::precision);
  throw PluginRefusal(
      {.what = fmt::format("backend {} has {}", name_of(backend), lacks),
       .where = precision.options.origin,
       .got = fmt::format("precision {}, whose gradients travel in that type", precision.name),
       .expected = "gradients in a type that the backend reduces",
       .hint = "take another precision or `reduce_dtype`, or another backend"});
}

void check_step(const Experiment& experiment, std::int64_t step) {
  const std::int64_t steps = training(experiment).train.all_steps();
  if (step >= 0 && step < steps) return;
  throw ConfigError(
      {.what = "the run has no such step",
       .where = "--step",
       .got = std::to_string(step),
       .expected = fmt::format("0 to {}: train.warmup_steps + train.steps = {}", steps - 1, steps),
       .hint = "steps count from 0, warm-up steps included"});
}

KindFile file_of_training() {
  return {
      .own = TrainingConfig(),
      .sections =
          {own_section("model", "the transformer", &TrainingConfig::model),
           own_section("data", "what it is trained on", &TrainingConfig::data), world_section(),
           own_section("optimizer", "how parameters are updated", &TrainingConfig::optimizer),
           own_section("train", "batch and steps", &TrainingConfig::train),
           own_section("execution", "how a device is given its work", &TrainingConfig::execution),
           own_section("profile", "what is recorded besides the times", &TrainingConfig::profile),
           output_section()},
      .plugins = {PluginKind::strategy, PluginKind::precision, PluginKind::attention}};
}

class TrainingKind final : public Training {
 public:
  TrainingKind() : Training(file_of_training()) {}

  std::vector<std::string*> paths(Experiment& experiment) const override {
    TrainingConfig& config = training(experiment);
    std::vector<std::string*> out;
    for (auto* paths : {&config.data.path, &config.train.eval.path}) {
      for (std::string& path : *paths) out.push_back(&path);
    }
    for (std::string* path : {&config.model.init_from, &config.data.tokenizer}) {
      if (!path->empty()) out.push_back(path);
    }
    return out;
  }

  void check_plugins(const Experiment& experiment, const PluginRegistry& registry) const override {
    const RunPlugins plugins = make_plugins(registry, experiment);
    const RunDescription run = describe_run(experiment, *plugins.precision);
    ask_plugins(plugins, experiment, run);
    check_documents(experiment, *plugins.attention);
    check_reduction(experiment, plugins, run.dtypes.reduce);
    if (!training(experiment).optimizer.overlap) return;
    check_overlap(plan_of(experiment, plugins), *plugins.precision,
                  origin_of(experiment.document, "optimizer.overlap"));
  }

  std::optional<Account> check_machine(const Experiment& experiment, const PluginRegistry& registry,
                                       std::int64_t local_ranks) const override {
    check_tokenizer(experiment);
    if (experiment.world.device == DeviceKind::cpu) {  // check_plugins() asked the plugins
      return check_memory(experiment, registry, local_ranks);
    }
    const RunPlugins plugins = make_plugins(registry, experiment);
    RunDescription run = describe_run(experiment, *plugins.precision);
    run.compute_capability = compute_capability(run.device);
    ask_plugins(plugins, experiment, run);
    return {};
  }

  std::vector<Account> accounts(std::span<const Experiment* const> experiments,
                                const PluginRegistry& registry,
                                std::int64_t ranks_per_host) const override {
    return dry_steps(experiments, registry, static_cast<int>(ranks_per_host));
  }

  std::optional<bool> trains_exactly(const Experiment& experiment,
                                     const PluginRegistry& registry) const override {
    const RunPlugins plugins = make_plugins(registry, experiment);
    return plan_of(experiment, plugins).agreement == Agreement::exact;
  }

  std::vector<KindContent> contents(const Experiment& experiment) const override {
    const TrainingConfig& config = training(experiment);
    std::vector<KindContent> out = {content(kDataPath, config.data, config.model)};
    if (config.train.eval.every > 0) {
      out.push_back(content(kEvalPath, config.eval_data(), config.model));
    }
    if (!config.model.init_from.empty()) {
      out.push_back({kInitFrom, {config.model.init_from}, [model = config.model] {
                       return PretrainedWeights(model.init_from, model).hash();
                     }});
    }
    if (const auto resumed = Resumption::find(experiment)) {
      out.push_back({.key = kResumeFrom,
                     .identity = {resumed->folder().string()},
                     .hash = [hash = hash_of(resumed->state())] { return hash; },
                     .of_its_runs = config.train.resume_from == kLatest});
    }
    return out;
  }

  std::optional<std::vector<SampleRead>> reads(const Experiment& experiment,
                                               std::int64_t step) const override {
    check_step(experiment, step);
    const auto data = open_training_data(experiment);
    const TextCodec codec(training(experiment).data);
    const std::int64_t ranks = experiment.world.size;
    std::vector<SampleRead> out;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (std::int64_t part = 0; part < micro_batches(experiment, ranks); ++part) {
        const std::int64_t first = first_sample(experiment, {rank, ranks}, part);
        for (std::int64_t sample = first; sample < first + micro_batch(experiment); ++sample) {
          const Batch batch = data->batch(step, sample, 1);
          out.push_back({rank, part, sample, place_of(data->pieces(step, sample)),
                         text_of(batch, codec), documents_of(batch), targets_of(batch)});
        }
      }
    }
    return out;
  }

  nlohmann::json work(const Experiment& experiment, const PluginRegistry&) const override {
    const ModelConfig& model = training(experiment).model;
    const bool forward = training(experiment).train.measure == StepExtent::forward;
    const auto sequences = static_cast<double>(global_batch(experiment));
    const double tokens = sequences * static_cast<double>(model.context_length);
    const double share = forward ? 1.0 / 3 : 1.0;  // backward has two products for each of forward
    return {{"sequences", sequences},
            {"tokens", tokens},
            {"flops", tokens * matmul_flops_per_token(model) * share}};
  }

  bool ranks_write(const Experiment& experiment) const override {
    const ProfileConfig& profile = training(experiment).profile;
    return profile.memory || profile.operators || profile.memory_snapshot;
  }

  bool has_live_outputs() const override { return true; }

  void check_unfinished(const Experiment& experiment) const override {
    Resumption::check_unfinished(experiment);
  }

  void check_unsaved(const Experiment& experiment) const override {
    check_checkpoint_folder(experiment, Resumption::folder_of(experiment));
  }

  std::uint64_t saved(const Experiment& experiment) const override {
    if (!training(experiment).train.checkpoint.saves()) return 0;
    const auto latest = find_checkpoint(checkpoint_folder(experiment));
    return latest.empty() ? 0 : hash_of(read_state(latest));
  }

  double end_grace_s(const Experiment& experiment) const override {
    const bool saves_first = training(experiment).train.checkpoint.on_signal;
    return saves_first ? experiment.world.comm.timeout_s : Training::end_grace_s(experiment);
  }

  void go_on(Experiment& experiment) const override {
    training(experiment).train.resume_from = kLatest;
    experiment.contents[kResumeFrom] = saved(experiment);
  }

  void check_verify(const Experiment& experiment, const PluginRegistry& registry,
                    bool parameter_bound) const override {
    check_mean(experiment, registry);
    refuse_unused(experiment, !training(experiment).train.resume_from.empty(), "train.resume_from",
                  "ddprun verify, which trains from step 0");
    const OptimizerKind optimizer = training(experiment).optimizer.name;
    if (!parameter_bound || optimizer == OptimizerKind::sgd) return;
    refuse(experiment, "optimizer.name",
           {.what = "--parameter-bound means nothing with AdamW",
            .got = said("optimizer.name", name_of(optimizer)),
            .expected = "optimizer.name sgd",
            .hint = "AdamW divides by the gradient's own size, so it turns the rounding "
                    "of a gradient near zero into a whole step; without the option, "
                    "gradients and the update by equal gradients are bounded"});
  }
};

}  // namespace

const Training& training() {
  static const TrainingKind kind;
  return kind;
}

}  // namespace ddprun
