// Pairs of the plugins that are there.
#include "combinations.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "ddprun/config/plain_scalar.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "plugins_under_test.h"
#include "support/experiments.h"

namespace ddprun {

namespace {

/// Values of a strategy's own options, as YAML has them. Nested options are left alone.
class ChosenValues : public Options {
 public:
  void section(const std::string&, const std::string&,
               const std::function<void(Options&)>&) override {}
  void list(const std::string&, const std::string&, const SectionList&) override {}
  void choice_or_section(const std::string&, ChoiceTarget, const std::string&,
                         const std::function<void(Options&)>&) override {}
  ConfigNode node;

 protected:
  void set(const std::string& key, const std::string& value) {
    ConfigNode scalar;
    scalar.kind = ConfigNode::Kind::scalar;
    scalar.scalar = value;
    node.kind = ConfigNode::Kind::map;
    node.map.emplace_back(key, scalar);
  }
};

/// Options at their lower limits: with the model of these tests, a bucket of the default size would
/// hold everything.
class LowerLimits final : public ChosenValues {
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    if (!spec.limits.min) return false;
    if (std::holds_alternative<double*>(target)) {
      set(spec.key, number_text(*spec.limits.min));
    } else if (std::holds_alternative<std::int64_t*>(target)) {
      set(spec.key, std::to_string(static_cast<std::int64_t>(*spec.limits.min)));
    }
    return false;
  }
};

/// Other values than the defaults: each switch turned, and 2 or 0.5 where 0 stands for a default.
class OtherValues final : public ChosenValues {
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    if (const auto* const turned = std::get_if<bool*>(&target)) {
      set(spec.key, **turned ? "false" : "true");
    } else if (std::holds_alternative<std::int64_t*>(target) && spec.limits.min == 0.0) {
      set(spec.key, "2");
    } else if (const auto* const number = std::get_if<double*>(&target);
               number != nullptr && spec.limits.min == 0.0 && **number == 0.0) {
      set(spec.key, "0.5");
    }
    return false;
  }
};

/// 2 ranks, and 1 or 4 in turn: each plugin meets all three numbers, and a pair of plugins two.
std::array<int, 2> rank_counts(std::size_t turn) { return {turn % 2 == 0 ? 1 : 4, 2}; }

/// What the strategy promises, by a plan.
Agreement agreement_of(const Experiment& experiment) {
  const std::vector<NamedTensor> parameters = {{"p", at::ones({4}).requires_grad_()}};
  const ParameterLayout layout(parameters, {}, KernelSet::reference,
                               static_cast<int>(experiment.world.size));
  const auto strategy = make_strategy(registry(), experiment.plugin(PluginKind::strategy));
  return strategy->plan(layout, 0).agreement;
}

/// Those of OtherValues are on 4 ranks over gloo, as no others are.
const char* options_name(const Combination& combination) {
  if (combination.strategy_options.map.empty()) return kOptionNames[0];
  return kOptionNames[combination.backend == BackendKind::gloo ? 2 : 1];
}

}  // namespace

std::string name_of(const Combination& combination) {
  const auto& [strategy, precision, attention, ranks, options, backend] = combination;
  return strategy + options_name(combination) + "__" + precision + "__" + attention + "__" +
         std::to_string(ranks) + (ranks == 1 ? "_rank__" : "_ranks__") + name_of(backend);
}

void PrintTo(const Combination& combination, std::ostream* out) { *out << name_of(combination); }

std::optional<Refusal> refusal(PluginKind kind, const Experiment& experiment) {
  const auto precision = make_precision(registry(), experiment.plugin(PluginKind::precision));
  const RunDescription run = describe_run(experiment, *precision);
  switch (kind) {
    case PluginKind::strategy:
      return make_strategy(registry(), experiment.plugin(PluginKind::strategy))->unsupported(run);
    case PluginKind::precision:
      return precision->unsupported(run);
    case PluginKind::attention:
      return make_attention(registry(), experiment.plugin(PluginKind::attention))->unsupported(run);
  }
  return {};
}

Experiment experiment_of(const Combination& combination) {
  Experiment experiment = test::small_experiment(combination.ranks);
  training(experiment).train.steps = 8;  // ranks that meet every few steps have met by then
  experiment.plugin(PluginKind::strategy).name = combination.strategy;
  experiment.plugin(PluginKind::strategy).options = combination.strategy_options;
  experiment.plugin(PluginKind::precision).name = combination.precision;
  experiment.plugin(PluginKind::attention).name = combination.attention;
  give_options(experiment);
  experiment.world.comm.backend = combination.backend;
  experiment.world.comm.timeout_s = 30;
  if (refusal(PluginKind::precision, experiment))
    training(experiment).model.kernels = KernelSet::reference;
  return experiment;
}

bool supported(const Experiment& experiment) {
  return !refusal(PluginKind::strategy, experiment) &&
         !refusal(PluginKind::precision, experiment) && !refusal(PluginKind::attention, experiment);
}

std::vector<std::string> discovered(PluginKind kind) {
  std::vector<std::string> names;
  for (const auto& plugin : registry().list()) {
    if (plugin.kind == kind) names.push_back(plugin.name);
  }
  return names;
}

namespace {

/// Without options that the strategy refuses by themselves: the others are tried all the same.
Combination without_refused_options(Combination combination) {
  const auto options = std::exchange(combination.strategy_options.map, {});
  std::vector<std::pair<std::string, ConfigNode>> kept;
  for (const auto& option : options) {
    combination.strategy_options.map = {option};
    if (!refusal(PluginKind::strategy, experiment_of(combination))) kept.push_back(option);
  }
  combination.strategy_options.map = std::move(kept);
  return combination;
}

std::vector<Combination> find_combinations() {
  const auto precisions = discovered(PluginKind::precision);
  const auto attentions = discovered(PluginKind::attention);
  const auto strategies = discovered(PluginKind::strategy);
  std::vector<Combination> all;
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    const std::string& strategy = strategies[s];
    // Gradients do not tell a strategy which attention made them: pairs of plugins are enough.
    for (std::size_t p = 0; p < precisions.size(); ++p)
      for (std::size_t a = 0; a < (s == 0 ? attentions.size() : 1); ++a)
        for (const int ranks : rank_counts(s + p + a)) {
          all.push_back({strategy, precisions[p], attentions[a], ranks});
        }
    // What a backend carries does not depend on the other plugins. Ranks that are threads meet
    // sooner in shared memory.
    for (const int ranks : {1, 2, 4}) {
      all.push_back({strategy, "fp32", attentions[0], ranks, {}, BackendKind::gloo});
    }
    LowerLimits limits;
    registry().create(PluginKind::strategy, strategy)->declare_options(limits);
    OtherValues others;
    registry().create(PluginKind::strategy, strategy)->declare_options(others);
    for (const std::string& precision : precisions) {
      const Combination turned = without_refused_options(
          {strategy, precision, attentions[0], 4, others.node, BackendKind::gloo});
      // With its defaults it stands above.
      if (!turned.strategy_options.map.empty()) all.push_back(turned);
    }
    if (limits.node.map.empty()) continue;
    for (std::size_t p = 0; p < precisions.size(); ++p)
      for (const int ranks : rank_counts(s + p + 1)) {  // the number that it did not meet above
        all.push_back({strategy, precisions[p], attentions[0], ranks, limits.node});
      }
  }
  std::erase_if(all, [](const Combination& one) {
    const Experiment experiment = experiment_of(one);
    // Ranks that train apart keep no contract.
    return !supported(experiment) || agreement_of(experiment) == Agreement::none;
  });
  return all;
}

}  // namespace

const std::vector<Combination>& combinations() {
  static const std::vector<Combination> all = find_combinations();
  return all;
}

}  // namespace ddprun
