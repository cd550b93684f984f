// What arithmetic's file says, what is refused, and the one rank that computes it.
#include <fmt/format.h>

#include <cmath>

#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/arithmetic/arithmetic_config.h"
#include "ddprun/experiments/arithmetic/arithmetic_kind.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

void refuse_missing(const Experiment& e, bool missing, const char* key) {
  if (!missing) return;
  refuse(e, std::string("arithmetic.") + key,
         {.what = fmt::format("arithmetic.{} is missing", key),
          .got = "nothing to compute with",
          .expected = "a number above 0",
          .hint = "`ddprun describe arithmetic` shows all keys; docs/arithmetic.md has examples"});
}

void add_memory(const ArithmeticConfig& c, Sample& sample, RankResult& result) {
  const ArithmeticKind& q = arithmetic();
  const double state = state_bytes(c.stack());
  const double saved =
      static_cast<double>(c.element_bytes) * c.stack().activations(static_cast<double>(c.tokens));
  const double memory = c.memory_gb * 1e9;
  const double fewest = fewest_ranks(state, saved, c.sharded_activations, memory);
  sample[q.parameters] = c.stack().parameters() * 1e-9;
  sample[q.state_gb] = state * 1e-9;
  sample[q.activations_gb] = saved * 1e-9;
  sample[q.devices] = (state + saved) / memory;
  sample[q.rank_gb] = sharded_bytes(state, saved, c.sharded_activations, c.mesh().ranks()) * 1e-9;
  sample[q.fewest_ranks] = fewest;
  const auto fits = [&](double ranks) {
    return sharded_bytes(state, saved, c.sharded_activations, ranks) < memory;
  };
  const bool right = fewest == 0 ? (1 - c.sharded_activations) * saved >= memory
                                 : fits(fewest) && (fewest == 1 || !fits(fewest - 1));
  result.checks.push_back(make_check("fewest_ranks", right, fmt::format("{:.0f} ranks", fewest)));
}

void add_times(const ArithmeticConfig& c, Sample& sample) {
  const ArithmeticKind& q = arithmetic();
  const auto times = forward_times(c.stack(), c.mesh(), c.machine(), static_cast<double>(c.tokens));
  sample[q.compute_ms] = times.compute * 1e3;
  sample[q.data_ms] = times.data * 1e3;
  sample[q.tensor_ms] = times.tensor * 1e3;
  sample[q.overlapped_efficiency] = 100 * times.compute / times.overlapped();
  sample[q.exposed_efficiency] = 100 * times.compute / times.in_turn();
  sample[q.most_data_ranks] =
      most_data_ranks(c.stack(), c.mesh(), c.machine(), static_cast<double>(c.tokens));
}

void add_batch(const ArithmeticConfig& c, Sample& sample, RankResult& result) {
  const ArithmeticKind& q = arithmetic();
  const double least = least_tokens_a_rank(c.stack(), c.mesh(), c.machine());
  sample[q.least_tokens] = least;
  sample[q.least_batch] = least * c.mesh().ranks();
  sample[q.least_of_any_mesh] = least_tokens_of_any_mesh(c.stack(), c.mesh(), c.machine());
  Machine book = c.machine();
  book.asymptotic = true;
  const double searched = least_tokens_a_rank(c.stack(), c.mesh(), book);
  const double formula = least_tokens_by_formula(c.stack(), c.mesh(), book);
  result.checks.push_back(make_check(
      "least_batch", std::abs(searched - formula) <= 1,
      fmt::format("{:.0f} tokens a rank by search, {:.0f} by the formula", searched, formula)));
}

class OnPaper final : public ArithmeticKind {
 public:
  OnPaper()
      : ArithmeticKind(
            {.own = ArithmeticConfig(),
             .sections = {world_section(),
                          own_section<ArithmeticConfig>(
                              "arithmetic", "a stack of linear layers on a mesh of ranks"),
                          output_section()}}) {}

  void check(const Experiment& experiment) const override {
    const auto& c = experiment.as<ArithmeticConfig>();
    refuse_missing(experiment, c.d_model == 0, "d_model");
    refuse_missing(experiment, c.d_ff == 0, "d_ff");
    refuse_missing(experiment, c.layers == 0, "layers");
    refuse_missing(experiment, c.tflops == 0, "tflops");
    refuse_missing(experiment, c.link_gb_per_s == 0, "link_gb_per_s");
    refuse_several_ranks(experiment,
                         {.what = "experiment arithmetic is of one rank: others would repeat it",
                          .hint = "data_ranks and tensor_ranks are the ranks on paper"});
  }

  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry&,
                                    const RunContext& context) const override {
    ConnectedRank rank(experiment, context);
    const auto& config = experiment.as<ArithmeticConfig>();
    return rank.run_once([&](Sample& sample) {
      add_memory(config, sample, rank.result());
      if (config.tokens > 0) add_times(config, sample);
      add_batch(config, sample, rank.result());
    });
  }
};

}  // namespace

const ArithmeticKind& arithmetic() {
  static const OnPaper kind;
  return kind;
}

}  // namespace ddprun
