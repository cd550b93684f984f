// Settings that contradict each other, or that would be ignored: refused before any rank starts,
// with the arithmetic.
#include "ddprun/config/experiment_check.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "ddprun/base/error.h"
#include "ddprun/config/option_text.h"

namespace ddprun {

namespace {

void check_name(const Experiment& e) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (e.name.find_first_not_of(kLetters) == std::string::npos && !e.name.starts_with('.')) return;
  const bool given = e.document.find("name") != nullptr;
  throw ConfigError({"the experiment's name cannot name a folder", origin_of(e.document, "name"),
                     e.name, "letters, digits, '.', '_' and '-', not starting with '.'",
                     given ? "" : "it is the file's name; add name: to the file"});
}

void check_model(const Experiment& e) {
  const ModelConfig& m = e.model;
  const std::string got =
      "d_model " + std::to_string(m.d_model) + ", heads " + std::to_string(m.heads);
  const std::string where =
      origin_of(e.document, e.document.find("model") && e.document.find("model")->find("heads")
                                ? "model.heads"
                                : "model.d_model");
  if (m.d_model % m.heads != 0) {
    throw ConfigError({"model.heads does not divide model.d_model", where, got,
                       "d_model a multiple of heads", ""});
  }
  if (m.head_dim() % 2 != 0) {
    throw ConfigError({"the dimension of a head must be even: RoPE rotates pairs", where,
                       got + ": " + std::to_string(m.head_dim()) + " a head",
                       "d_model / heads even", ""});
  }
}

void check_batch(const Experiment& e) {
  const TrainConfig& t = e.train;
  const bool global = t.global_batch > 0;
  if (global == (t.batch_per_rank > 0)) {
    throw ConfigError({"train must give the batch exactly once", origin_of(e.document, "train"),
                       global ? "global_batch " + std::to_string(t.global_batch) +
                                    " and batch_per_rank " + std::to_string(t.batch_per_rank)
                              : "neither global_batch nor batch_per_rank",
                       "global_batch (over all ranks) or batch_per_rank",
                       global ? "remove one of them" : "train: {global_batch: 8}"});
  }
  const std::int64_t batch = global ? t.global_batch : t.batch_per_rank;
  const std::int64_t divisor = (global ? e.world.size : 1) * t.accumulate;
  if (batch % divisor == 0) return;
  const std::string key = global ? "global_batch" : "batch_per_rank";
  const std::string parts = (global ? std::to_string(e.world.size) + " ranks x " : "") +
                            std::to_string(t.accumulate) + " accumulation";
  const std::int64_t above = (batch / divisor + 1) * divisor;
  const std::int64_t below = above - divisor;
  throw ConfigError(
      {"train." + key + " " + std::to_string(batch) + " is not divisible by " + parts,
       origin_of(e.document, "train." + key), std::to_string(batch),
       "a multiple of " + std::to_string(divisor),
       (below > 0 ? "the nearest are " + std::to_string(below) + " and " : "the nearest is ") +
           std::to_string(above)});
}

void check_schedule(const Experiment& e) {
  const ScheduleConfig& schedule = e.optimizer.schedule;
  const std::int64_t steps = e.train.warmup_steps + e.train.steps;
  if (schedule.warmup_steps > steps) {
    throw ConfigError({"the learning rate would never finish its warm-up",
                       origin_of(e.document, "optimizer.schedule.warmup_steps"),
                       std::to_string(schedule.warmup_steps) + " warm-up steps of the schedule",
                       "at most the " + std::to_string(steps) +
                           " steps of the run (train.warmup_steps " +
                           std::to_string(e.train.warmup_steps) + " + train.steps " +
                           std::to_string(e.train.steps) + ")",
                       ""});
  }
  if (schedule.min_lr > e.optimizer.lr) {
    throw ConfigError({"optimizer.schedule.min_lr is above optimizer.lr",
                       origin_of(e.document, "optimizer.schedule.min_lr"),
                       number_text(schedule.min_lr), "at most " + number_text(e.optimizer.lr), ""});
  }
}

// An option that is set, and that its neighbour makes meaningless.
void refuse_unused(const Experiment& e, bool changed, const std::string& path,
                   const std::string& neighbour) {
  if (!changed) return;
  throw ConfigError({path + " has no effect with " + neighbour, origin_of(e.document, path), "", "",
                     "remove it"});
}

void check_optimizer(const Experiment& e) {
  const OptimizerConfig& o = e.optimizer;
  const OptimizerConfig defaults;
  if (o.betas.size() != 2) {
    std::vector<std::string> betas;
    for (const double beta : o.betas) betas.push_back(number_text(beta));
    throw ConfigError({"optimizer.betas must hold two numbers",
                       origin_of(e.document, "optimizer.betas"), "[" + join(betas) + "]",
                       "two, as in [0.9, 0.95]", ""});
  }
  const std::string name = "optimizer.name " + o.name;
  const bool adamw = o.name == "adamw";
  refuse_unused(e, adamw && o.momentum != defaults.momentum, "optimizer.momentum", name);
  refuse_unused(e, !adamw && o.betas != defaults.betas, "optimizer.betas", name);
  refuse_unused(e, !adamw && o.eps != defaults.eps, "optimizer.eps", name);
  const bool constant = o.schedule.name == "constant";
  const std::string schedule = "optimizer.schedule.name " + o.schedule.name;
  refuse_unused(e, constant && o.schedule.min_lr != 0, "optimizer.schedule.min_lr", schedule);
  if (o.overlap && o.clip_norm > 0) {
    throw ConfigError({"optimizer.overlap cannot run with optimizer.clip_norm",
                       origin_of(e.document, "optimizer.overlap"),
                       "clip_norm " + number_text(o.clip_norm), "clip_norm 0",
                       "clipping needs the norm of all gradients before the first update: remove "
                       "one of them"});
  }
}

void check_data(const Experiment& e) {
  const std::string source = "data.source " + e.data.source;
  const bool random = e.data.source == "random";
  if (!random && e.data.path.empty()) {
    throw ConfigError({source + " needs data.path", origin_of(e.document, "data.source"), "no path",
                       "a file or folder, or a list of them", ""});
  }
  if (e.data.source == "text" && e.model.vocab_size < 256) {
    throw ConfigError({"text is read as bytes, which need a vocabulary of 256",
                       origin_of(e.document, "model.vocab_size"),
                       "model.vocab_size " + std::to_string(e.model.vocab_size), ">= 256", ""});
  }
  refuse_unused(e, random && !e.data.path.empty(), "data.path", source);
  refuse_unused(e, e.data.source != "tokens" && e.data.token_type != DataConfig().token_type,
                "data.token_type", source);
}

// Options of gloo, where another backend may run.
void check_backend(const Experiment& e) {
  const CommConfig& comm = e.world.comm;
  const CommConfig defaults;
  const auto refuse = [&](bool changed, const std::string& key) {
    if (!changed || comm.backend == "gloo" || comm.backend == "hierarchical") return;
    throw ConfigError({"world." + key + " is an option of gloo",
                       origin_of(e.document, "world." + key), "world.backend " + comm.backend,
                       "world.backend gloo or hierarchical", "add one of them, or remove it"});
  };
  refuse(comm.gloo_threads != defaults.gloo_threads, "gloo_threads");
  refuse(comm.interface != defaults.interface, "interface");
}

// What a device lacks.
void check_device_choice(const Experiment& e) {
  const bool cuda = e.world.device == "cuda";
  const std::string& backend = e.world.comm.backend;
  if (cuda && backend != "auto" && backend != "nccl") {
    throw ConfigError({"world.backend " + backend + " joins ranks on the CPU",
                       origin_of(e.document, "world.backend"), "world.device cuda", "nccl or auto",
                       ""});
  }
  if (!cuda && backend == "nccl") {
    throw ConfigError({"world.backend nccl joins ranks on GPUs",
                       origin_of(e.document, "world.backend"), "world.device " + e.world.device,
                       "auto, gloo, shm or hierarchical",
                       "add `device: cuda`, or take another backend"});
  }
  if (!cuda && e.world.emulate_ranks_on_one_gpu) {
    throw ConfigError({"world.emulate_ranks_on_one_gpu needs a GPU",
                       origin_of(e.document, "world.emulate_ranks_on_one_gpu"),
                       "world.device " + e.world.device, "world.device cuda",
                       "ranks on the CPU share it anyway: remove the option"});
  }
  if (cuda && e.model.kernels == "fused") {
    throw ConfigError({"the fused kernels are not there on CUDA",
                       origin_of(e.document, "model.kernels"), "model.kernels fused", "reference",
                       "set `kernels: reference` under `model:`"});
  }
}

// What would be asked for and not written.
void check_profile(const Experiment& e) {
  if (!e.profile.memory_snapshot) return;
  const std::string where = origin_of(e.document, "profile.memory_snapshot");
  if (e.world.device == "cpu") {
    throw ConfigError({"profile.memory_snapshot is the history of a GPU's allocator", where,
                       "world.device cpu", "world.device cuda",
                       "memory by phase is in every result, on the CPU too"});
  }
  if (e.train.warmup_steps == 0) {
    throw ConfigError({"profile.memory_snapshot records warm-up steps, and there are none", where,
                       "train.warmup_steps 0", "at least 1", ""});
  }
}

// A graph is captured from a step of the warm-up, after some that were eager.
void check_execution(const Experiment& e) {
  if (e.execution.mode != "cuda_graph") return;
  const std::string where = origin_of(e.document, "execution.mode");
  if (e.world.device != "cuda") {
    throw ConfigError({"execution.mode cuda_graph is of GPUs", where,
                       "world.device " + e.world.device, "world.device cuda",
                       "set `mode: eager` under `execution:`"});
  }
  const std::int64_t least = ExecutionConfig::kEagerSteps + 1;
  if (e.train.warmup_steps < least) {
    throw ConfigError(
        {"execution.mode cuda_graph needs warm-up steps: the graph is captured in one",
         origin_of(e.document, "train.warmup_steps"), std::to_string(e.train.warmup_steps),
         "at least " + std::to_string(least), ""});
  }
}

}  // namespace

std::string origin_of(const ConfigNode& document, const std::string& path) {
  const ConfigNode* node = &document;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    const ConfigNode* child = node->find(key);
    if (child == nullptr) break;
    node = child;
  }
  return node->key_origin.empty() ? node->origin : node->key_origin;
}

void check_experiment(const Experiment& experiment) {
  check_name(experiment);
  check_model(experiment);
  check_data(experiment);
  check_optimizer(experiment);
  check_batch(experiment);
  check_schedule(experiment);
  check_backend(experiment);
  check_device_choice(experiment);
  check_profile(experiment);
  check_execution(experiment);
}

}  // namespace ddprun
