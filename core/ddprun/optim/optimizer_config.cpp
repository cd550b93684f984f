// The options of the section `optimizer:`.
#include "ddprun/optim/optimizer_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

namespace {

void declare_group(Options& o, ParameterGroup& group) {
  o.option("match", &group.match,
           "names of parameters, with wildcards, in quotes: \"*.ln?.weight\"");
  o.option("lr_scale", &group.lr_scale, "multiplies the step's learning rate", {.min = 0});
  o.option("weight_decay", &group.weight_decay, "default: the optimizer's", {.min = 0});
}

}  // namespace

void declare_options(Options& o, OptimizerConfig& c) {
  o.option("name", &c.name, "AdamW with decoupled decay, or SGD with momentum");
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
  o.list("groups", "other settings for some parameters; the first that matches one counts",
         sections(&c.groups, ParameterGroup{}, declare_group));
  o.section("schedule", "the learning rate over the steps", [&c](Options& schedule) {
    schedule.option("name", &c.schedule.name, "the learning rate after the warm-up");
    schedule.option("warmup_steps", &c.schedule.warmup_steps, "steps of linear warm-up",
                    {.min = 0, .max = 1e9});
    schedule.option("min_lr", &c.schedule.min_lr, "learning rate at the end (cosine)", {.min = 0});
  });
}

}  // namespace ddprun
