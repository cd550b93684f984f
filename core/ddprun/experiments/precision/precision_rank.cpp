// What a demonstration's file says, what is refused, and what the rank does.
#include <fmt/format.h>

#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/precision/demonstrations.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

void check_meaning(const Experiment& e) {
  const auto& d = e.as<DemonstrationConfig>();
  const DemonstrationConfig defaults;
  const std::string name = said("demonstration.name", name_of(d.name));
  const bool adds = d.name == Demonstration::accumulation;
  refuse_unused(e, adds && d.autocast != defaults.autocast, "demonstration.autocast", name);
  refuse_unused(e, !adds && d.sum != defaults.sum, "demonstration.sum", name);
  refuse_unused(e, !adds && d.addend != defaults.addend, "demonstration.addend", name);
  refuse_unused(e, !adds && d.count != defaults.count, "demonstration.count", name);
}

void add_numbers(const DemonstrationConfig& config, c10::Device device, Sample& sample,
                 RankResult& result) {
  const PrecisionStudy& q = precision_study();
  const Accumulated got = accumulate_by_tensors(config, device);
  const Accumulated wanted = accumulate_by_scalars(config);
  const auto count = static_cast<double>(config.count);
  const double exact = config.addend * count;
  sample[q.sum] = got.sum;
  sample[q.exact] = exact;
  sample[q.error] = got.sum - exact;
  sample[q.addends_error] = got.addend * count - exact;
  sample[q.sums_error] = got.sum - got.addend * count;
  result.checks.push_back(
      make_check("sum_by_scalars", got.sum == wanted.sum && got.addend == wanted.addend,
                 fmt::format("{:.17g} by tensors, {:.17g} by scalars", got.sum, wanted.sum)));
}

void read_dtypes(const DemonstrationConfig& config, c10::Device device, RankResult& result) {
  const AutocastDtypes measured = measure_autocast(config.autocast, device);
  result.observed = measured.tensors;
  result.checks.push_back(
      make_check("fc1_by_hand", measured.fc1_by_hand,
                 measured.fc1_by_hand ? "equal" : "autocast did something else"));
  result.checks.push_back(make_check("finite", measured.finite,
                                     measured.finite ? "outputs and gradients" : "some are not"));
}

class PrecisionKind final : public PrecisionStudy {
 public:
  PrecisionKind()
      : PrecisionStudy({.own = DemonstrationConfig(),
                        .sections = {world_section(),
                                     own_section<DemonstrationConfig>(
                                         "demonstration", "what of precision is demonstrated"),
                                     output_section()}}) {}

  void check(const Experiment& experiment) const override {
    check_meaning(experiment);
    refuse_several_ranks(experiment,
                         {.what = "experiment precision is of one rank: others would repeat it",
                          .hint = "remove it"});
  }

  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry&,
                                    const RunContext& context) const override {
    ConnectedRank rank(experiment, context);
    const auto& config = experiment.as<DemonstrationConfig>();
    const c10::Device device = rank.device().torch_device();
    return rank.run_once([&](Sample& sample) {
      if (config.name == Demonstration::accumulation) {
        add_numbers(config, device, sample, rank.result());
      } else {
        read_dtypes(config, device, rank.result());
      }
    });
  }
};

}  // namespace

const PrecisionStudy& precision_study() {
  static const PrecisionKind kind;
  return kind;
}

}  // namespace ddprun
