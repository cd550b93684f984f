// From a YAML file to typed experiments, and back to YAML.
#include "ddprun/config/experiment.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/option_text.h"

namespace ddprun {

namespace {

constexpr double kManySequences = 1 << 24;  // far above any batch; keeps products within 64 bits
constexpr double kManySteps = 1e9;

struct ChoiceKey {
  const char* key;
  PluginKind kind;
  PluginChoice Experiment::*choice;
  const char* help;
};
constexpr std::array<ChoiceKey, 3> kChoices = {{
    {"strategy", PluginKind::strategy, &Experiment::strategy,
     "how gradients become their mean over ranks"},
    {"precision", PluginKind::precision, &Experiment::precision,
     "in which dtype each stage computes"},
    {"attention", PluginKind::attention, &Experiment::attention, "how attention is computed"},
}};

// The sections of an experiment that hold options; the plugin choices stand between them.
struct Section {
  const char* key;
  const char* help;
  void (*declare)(Options&, Experiment&);
};
constexpr std::array<Section, 8> kSections = {{
    {"model", "the transformer", [](Options& o, Experiment& e) { declare_options(o, e.model); }},
    {"data", "what it is trained on",
     [](Options& o, Experiment& e) { declare_options(o, e.data); }},
    {"world", "ranks and their connection",
     [](Options& o, Experiment& e) { declare_options(o, e.world); }},
    {"optimizer", "how parameters are updated",
     [](Options& o, Experiment& e) { declare_options(o, e.optimizer); }},
    {"train", "batch and steps", [](Options& o, Experiment& e) { declare_options(o, e.train); }},
    {"execution", "how a device is given its work",
     [](Options& o, Experiment& e) { declare_options(o, e.execution); }},
    {"profile", "what is recorded besides the times",
     [](Options& o, Experiment& e) { declare_options(o, e.profile); }},
    {"output", "where results go",
     [](Options& o, Experiment& e) {
       o.option("dir", &e.output_dir, "folder of the results, relative to the current directory");
     }},
}};

void declare_top_level(Options& options, Experiment& e) {
  options.option("name", &e.name, "names the result folder and the report; empty: the file's name");
  options.option("plugin_path", &e.plugin_path,
                 "folders searched for plugins first, relative to the file's folder");
}

void declare_document(Options& options, Experiment& e) {
  declare_top_level(options, e);
  for (const auto& section : kSections) {
    options.section(section.key, section.help, [&](Options& inner) { section.declare(inner, e); });
  }
}

// Never relative to the current directory: a file means the same wherever it is run from.
void make_absolute(std::string& path, const std::filesystem::path& folder) {
  if (!path.empty()) path = (folder / path).lexically_normal().string();
}

PluginChoice read_choice(const ConfigNode& document, const ChoiceKey& key,
                         const std::filesystem::path& file) {
  const std::string word = key.key;
  const std::string usage = word + ": NAME, or " + word + ": {name: NAME, ...its options}";
  const std::string hint = "`ddprun list` shows what is installed";
  const ConfigNode* node = document.find(word);
  if (node == nullptr) throw ConfigError({word + " is missing", file.string(), "", usage, hint});

  PluginChoice choice;
  choice.kind = key.kind;
  choice.options = *node;
  if (node->kind == ConfigNode::Kind::scalar) {
    choice.options = ConfigNode{};
    choice.options.kind = ConfigNode::Kind::map;
    choice.options.origin = node->origin;
    choice.options.key_origin = node->key_origin;
    choice.options.map.emplace_back("name", *node);
  }
  if (choice.options.find("name") == nullptr) {
    throw ConfigError({word + " has no name", node->origin, compact(*node), usage, hint});
  }
  std::vector<std::string> of_the_plugin;
  for (const auto& [option, value] : choice.options.map) {
    if (option != "name" && option != "path") of_the_plugin.push_back(option);
  }
  const auto declare = [&](Options& o) {
    o.option("name", &choice.name, "name of a plugin; `ddprun list` shows them");
    o.option("path", &choice.path, "its library, relative to the file's folder");
  };
  read_options(choice.options, word, declare, of_the_plugin);
  return choice;
}

void join_launch(Experiment& experiment, int world_size) {
  if (world_size == 0) return;
  const ConfigNode* world = experiment.document.find("world");
  if (world != nullptr && world->find("size") != nullptr && experiment.world.size != world_size) {
    throw ConfigError({"world.size contradicts the launch that this process belongs to",
                       origin_of(experiment.document, "world.size"),
                       std::to_string(experiment.world.size),
                       std::to_string(world_size) + ", the ranks that were launched",
                       "remove world.size, or launch that many ranks"});
  }
  experiment.world.size = world_size;
}

Experiment read_experiment(const SweepPoint& point, const std::filesystem::path& file,
                           int world_size) {
  Experiment e;
  e.document = point.document;
  e.label = point.label;
  std::vector<std::string> ignore = {"sweep"};
  for (const auto& key : kChoices) ignore.push_back(key.key);
  read_options(
      e.document, "", [&](Options& o) { declare_document(o, e); }, ignore);
  if (e.name.empty()) e.name = file.stem().string();

  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (const auto& key : kChoices) {
    PluginChoice& choice = e.*key.choice;
    choice = read_choice(e.document, key, file);
    make_absolute(choice.path, folder);
  }
  for (auto& path : e.data.path) make_absolute(path, folder);
  for (auto& path : e.plugin_path) make_absolute(path, folder);
  join_launch(e, world_size);
  check_experiment(e);
  return e;
}

ConfigNode text_node(const std::string& text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.scalar = text;
  node.quoted = plain_type(text) != PlainType::text;
  return node;
}

ConfigNode choice_node(const PluginChoice& choice) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::map;
  node.map.emplace_back("name", text_node(choice.name));
  if (!choice.path.empty()) node.map.emplace_back("path", text_node(choice.path));
  for (const auto& pair : choice.options.map) {
    if (pair.first != "name" && pair.first != "path") node.map.push_back(pair);
  }
  return node;
}

}  // namespace

void declare_options(Options& o, DataConfig& c) {
  o.option("source", &c.source, "text files read as bytes, token files, or random tokens",
           {.one_of = {"text", "tokens", "random"}});
  o.option("path", &c.path,
           "files or folders of text, or files of tokens, relative to the file's folder");
  o.option("token_type", &c.token_type, "of token files, little-endian",
           {.one_of = {"uint16", "uint32"}});
}

void declare_options(Options& o, WorldConfig& c) {
  o.option("size", &c.size, "number of ranks; a launcher's number replaces it",
           {.min = 1, .max = 4096});
  o.option("device", &c.device, "what each rank computes on; cuda: one GPU a rank",
           {.one_of = {"cpu", "cuda"}});
  o.option("threads_per_rank", &c.threads_per_rank,
           "compute threads; 0: the host's cores divided by its ranks, at least 1",
           {.min = 0, .max = 1024});
  o.option("pin", &c.pin, "each local rank to its share of the cores");
  o.option("emulate_ranks_on_one_gpu", &c.emulate_ranks_on_one_gpu,
           "all ranks share the first GPU, NCCL over sockets: right results, no times (cuda)");
  o.option("backend", &c.comm.backend,
           "what carries the collectives; auto: nccl on GPUs, shm if all ranks are on one host, "
           "hierarchical if several hosts have several ranks each, else gloo",
           {.one_of = {"auto", "gloo", "shm", "hierarchical", "nccl"}});
  o.option("gloo_threads", &c.comm.gloo_threads, "collectives that gloo runs at a time",
           {.min = 1, .max = 64});
  o.option("interface", &c.comm.interface,
           "network interface; empty: the one of the master's address");
  o.option("timeout_s", &c.comm.timeout_s, "seconds for the rendezvous and for every collective",
           {.min = 0.1, .max = 86400});
}

void declare_options(Options& o, OptimizerConfig& c) {
  o.option("name", &c.name, "AdamW with decoupled decay, or SGD with momentum",
           {.one_of = {"adamw", "sgd"}});
  o.option("lr", &c.lr, "learning rate; with a schedule, its highest", {.min = 0});
  o.option("betas", &c.betas, "two decay rates of the moments (adamw)",
           {.min = 0, .max = 0.999999});
  o.option("eps", &c.eps, "added to the root of the second moment (adamw)", {.min = 0});
  o.option("weight_decay", &c.weight_decay, "decoupled for adamw, part of the gradient for sgd",
           {.min = 0});
  o.option("momentum", &c.momentum, "of sgd", {.min = 0, .max = 1});
  o.option("clip_norm", &c.clip_norm, "largest global gradient norm; 0: no clipping", {.min = 0});
  o.option("overlap", &c.overlap,
           "update parameters whose gradients have arrived while others travel; the same bits");
  o.section("schedule", "the learning rate over the steps", [&c](Options& schedule) {
    schedule.option("name", &c.schedule.name, "the learning rate after the warm-up",
                    {.one_of = {"constant", "cosine"}});
    schedule.option("warmup_steps", &c.schedule.warmup_steps, "steps of linear warm-up",
                    {.min = 0, .max = kManySteps});
    schedule.option("min_lr", &c.schedule.min_lr, "learning rate at the end (cosine)", {.min = 0});
  });
}

void declare_options(Options& o, TrainConfig& c) {
  o.option("global_batch", &c.global_batch,
           "sequences a step over all ranks; 0: batch_per_rank x ranks",
           {.min = 0, .max = kManySequences});
  o.option("batch_per_rank", &c.batch_per_rank,
           "sequences a step of one rank; 0: global_batch / ranks",
           {.min = 0, .max = kManySequences});
  o.option("accumulate", &c.accumulate,
           "micro-batches a step; gradients are synchronized after the last",
           {.min = 1, .max = kManySequences});
  o.option("warmup_steps", &c.warmup_steps, "steps run and recorded before measuring",
           {.min = 0, .max = kManySteps});
  o.option("steps", &c.steps, "measured steps", {.min = 1, .max = kManySteps});
  o.option("seed", &c.seed, "of the parameters and of the data's order", {.min = 0});
}

void declare_options(Options& o, ProfileConfig& c) {
  o.option("memory_snapshot", &c.memory_snapshot,
           "write the history of rank 0's GPU memory, from set-up to the last warm-up step, as a "
           "pickle for pytorch.org/memory_viz");
}

void declare_options(Options& o, ExecutionConfig& c) {
  o.option("mode", &c.mode,
           "eager: operator by operator; cuda_graph: each step as one captured graph",
           {.one_of = {"eager", "cuda_graph"}});
}

std::int64_t Experiment::batch_per_rank() const {
  return train.batch_per_rank > 0 ? train.batch_per_rank : train.global_batch / world.size;
}
std::int64_t Experiment::micro_batch() const { return batch_per_rank() / train.accumulate; }
std::int64_t Experiment::global_batch() const { return batch_per_rank() * world.size; }

Setup Experiment::setup() const {
  return {.world_size = static_cast<int>(world.size),
          .device = world.device,
          .compute_capability = 0,  // which the plan asks the driver for
          .backend = world.comm.backend,
          .execution = execution.mode,
          .micro_batch = micro_batch(),
          .context_length = model.context_length,
          .heads = model.heads,
          .head_dim = model.head_dim(),
          .d_ff = model.d_ff,
          .compute_dtype = c10::kFloat,  // the plan asks the precision
          .kernels = model.kernels};
}

ExperimentFile load_experiments(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, int world_size) {
  ConfigNode document = read_yaml(file);
  if (document.kind != ConfigNode::Kind::map) {
    throw ConfigError({"an experiment must be a mapping", document.origin, compact(document),
                       "key: value lines", ""});
  }
  for (const auto& assignment : overrides) apply_override(document, assignment);

  ExperimentFile result;
  result.file = file;
  for (const auto& point : expand_sweep(document)) {
    try {
      result.experiments.push_back(read_experiment(point, file, world_size));
    } catch (const ConfigError& error) {
      if (point.label.empty()) throw;
      ErrorText text = error.text();
      text.where += ", in the sweep at " + point.label;
      throw ConfigError(std::move(text));
    }
  }
  result.name = result.experiments.front().name;
  for (const auto& experiment : result.experiments) {
    if (experiment.name != result.name) {
      throw ConfigError({"the name cannot be swept", origin_of(experiment.document, "name"),
                         experiment.name, "one name for all points of the sweep",
                         "labels tell the points apart"});
    }
  }
  return result;
}

std::string to_yaml(const Experiment& experiment) {
  Experiment copy = experiment;  // options are declared on variables that could be set
  ConfigNode node = write_options([&](Options& o) { declare_document(o, copy); });
  const auto after_world = std::find_if(node.map.begin(), node.map.end(),
                                        [](const auto& p) { return p.first == "world"; }) +
                           1;
  std::vector<std::pair<std::string, ConfigNode>> choices;
  for (const auto& key : kChoices)
    choices.emplace_back(key.key, choice_node(experiment.*key.choice));
  node.map.insert(after_world, choices.begin(), choices.end());
  return to_yaml(node);
}

std::vector<std::pair<std::string, std::vector<OptionInfo>>> describe_sections() {
  Experiment defaults;
  std::vector<std::pair<std::string, std::vector<OptionInfo>>> sections;
  sections.emplace_back("top level",
                        list_options([&](Options& o) { declare_top_level(o, defaults); }));
  auto& top = sections.front().second;
  for (const auto& key : kChoices) {
    top.push_back({key.key, "plugin", "(required)", "a name, or a mapping with one", key.help});
  }
  top.push_back({"sweep", "mapping", "{}", "key paths, each with a list of values",
                 "one experiment for each combination of values"});
  for (const auto& section : kSections) {
    sections.emplace_back(section.key,
                          list_options([&](Options& o) { section.declare(o, defaults); }));
  }
  return sections;
}

}  // namespace ddprun
