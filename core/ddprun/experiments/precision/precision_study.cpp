// Loops that add, in which nothing may be faster than it looks; a model, its forward under autocast
// and its backward. What the file says of them, what is refused, what the rank does, and what a
// table and sentences below it say.
#include "ddprun/experiments/precision/precision_study.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/base/options.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/rank/connected_rank.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

using nlohmann::json;
using Facts = std::vector<std::pair<std::string, std::string>>;

const json& demonstration(const Run& run) { return run.config.at("demonstration"); }

bool adds(const Run& run) {
  return demonstration(run).at("name").get<std::string>() == name_of(Demonstration::accumulation);
}

const char* types_in_words(const Run& run) {
  constexpr std::array kWords = {"float32 added in float32", "float16 added in float16",
                                 "float16 added in float32",
                                 "float16, converted, added in float32"};
  const auto types = value_named<SumTypes>(demonstration(run).at("sum").get<std::string>());
  return kWords.at(static_cast<std::size_t>(types));
}

/// Layer norm is the one operator of the model whose dtype depends on the device: CUDA's autocast
/// has it in its list of float32, and the CPU's in none of its lists. Of the device that did not
/// run, the list is all there is to say.
std::string with_the_other_list(const std::string& tensor, const std::string& dtype,
                                const std::string& device, const std::string& autocast) {
  if (tensor != "layer norm") return dtype;
  const bool cpu = device == "cpu";
  return fmt::format("{} (by {} list {}: not measured here)", dtype, cpu ? "CUDA's" : "the CPU's",
                     cpu ? "float32" : autocast);
}

Facts accumulation_facts(const Run& run) { return {{"types", types_in_words(run)}}; }

Facts dtype_facts(const Run& run) {
  const std::string autocast = demonstration(run).at("autocast").get<std::string>();
  const std::string device = run.config.at("world").at("device").get<std::string>();
  Facts out = {{"autocast", device + ", " + autocast}};
  for (const auto& [tensor, dtype] : run.ranks.front().observed) {
    out.emplace_back(tensor, with_the_other_list(tensor, dtype, device, autocast));
  }
  return out;
}

Finding accumulation_finding(const RunStatistics& run) {
  const PrecisionStudy& q = precision_study();
  const double addends = run.median(q.addends_error);
  const double sums = run.median(q.sums_error);
  const json& own = demonstration(run.run());
  const char* const cause = addends == 0 && sums == 0            ? "nothing was rounded"
                            : std::abs(addends) > std::abs(sums) ? "mostly from rounding the addend"
                                                                 : "mostly from rounding the sums";
  return {fmt::format("{}, {} times {}: {:.7g}; error {:+.2e} = {:+.2e} of the addends {:+.2e} of "
                      "the sums: {}",
                      types_in_words(run.run()), own.at("count").get<std::int64_t>(),
                      own.at("addend").get<double>(), run.median(q.sum), run.median(q.error),
                      addends, sums, cause),
          {{"kind", q.name()},
           {"types", own.at("sum")},
           {"sum", run.median(q.sum)},
           {"error", run.median(q.error)},
           {"addends_error", addends},
           {"sums_error", sums}}};
}

/// The tensors of each dtype, in the model's order.
Finding dtypes_finding(const RunStatistics& run) {
  Groups<std::vector<std::string>> tensors_of;  // each dtype
  for (const auto& [tensor, dtype] : run.run().ranks.front().observed) {
    tensors_of[dtype].push_back(tensor);
  }
  const auto text = [](const auto& each) {
    return fmt::format("{} are {}", fmt::join(each.second, ", "), each.first);
  };
  const std::string autocast = dtype_facts(run.run()).front().second;
  json value = {{"kind", precision_study().name()}, {"autocast", autocast}};
  for (const auto& [tensor, dtype] : run.run().ranks.front().observed) value[tensor] = dtype;
  return {fmt::format("autocast ({}): {}", autocast, list_text(mapped(tensors_of, text), "; ")),
          std::move(value)};
}

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

template <class Sum, class Addend>
Accumulated add_scalars(const DemonstrationConfig& config) {
  const auto addend = static_cast<Addend>(static_cast<float>(config.addend));
  Sum sum = 0;
  for (std::int64_t i = 0; i < config.count; ++i) {
    sum = static_cast<Sum>(static_cast<float>(sum) + static_cast<float>(addend));
  }
  return {static_cast<float>(sum), static_cast<float>(addend)};
}

constexpr std::int64_t kSamples = 8;
constexpr std::int64_t kInputs = 20;
constexpr std::int64_t kHidden = 10;
constexpr std::int64_t kClasses = 5;

/// (rows, columns) float32, between -1 and 1: the same on every machine, and no two alike.
at::Tensor numbers(std::int64_t rows, std::int64_t columns, c10::Device device) {
  const at::Tensor counted = at::arange(rows * columns, at::TensorOptions().dtype(at::kFloat));
  return (counted * 0.7).sin().view({rows, columns}).to(device);
}

struct ToyModel {
  explicit ToyModel(c10::Device device)
      : fc1(numbers(kHidden, kInputs, device).requires_grad_()),
        norm_weight(at::ones({kHidden}, at::TensorOptions(device)).requires_grad_()),
        norm_bias(at::zeros({kHidden}, at::TensorOptions(device)).requires_grad_()),
        fc2(numbers(kClasses, kHidden, device).requires_grad_()) {}

  std::vector<at::Tensor> parameters() const { return {fc1, norm_weight, norm_bias, fc2}; }

  at::Tensor fc1;                     // (kHidden, kInputs)
  at::Tensor norm_weight, norm_bias;  // (kHidden,)
  at::Tensor fc2;                     // (kClasses, kHidden)
};

/// The dtype of all of them, or each one that occurs.
std::string types_of(const std::vector<at::Tensor>& tensors) {
  std::string names;
  for (const at::Tensor& tensor : tensors) {
    const std::string name(c10::getDtypeNames(tensor.scalar_type()).first);
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : " and ") + name;
  }
  return names;
}

bool all_finite(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(
      tensors, [](const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); });
}

}  // namespace

void declare_options(Options& o, DemonstrationConfig& c) {
  o.option("name", &c.name,
           "accumulation: one number added many times; dtypes: the dtypes of a small model's "
           "tensors under autocast");
  o.option("sum", &c.sum,
           "of accumulation: the types of addends and sum; converted: each addend is converted to "
           "the sum's type before it is added");
  o.option("addend", &c.addend, "of accumulation: the number that is added",
           {.min = -1000, .max = 1000});
  o.option("count", &c.count, "of accumulation: how often it is added", {.min = 1, .max = 1e7});
  o.option("autocast", &c.autocast, "of dtypes: what autocast casts to");
}

PrecisionStudy::PrecisionStudy()
    : RunnableKind(
          {.name = "precision",
           .table_note = "What was computed once, on one rank; errors are against float64",
           .checks = {{"sum_by_scalars", "the sum that of scalar arithmetic, bit for bit"},
                      {"fc1_by_hand", "fc1's output that of operands cast by hand, bit for bit"},
                      {"finite", "all values finite"}}},
          {.own = DemonstrationConfig(),
           .sections = {world_section(),
                        own_section<DemonstrationConfig>("demonstration",
                                                         "what of precision is demonstrated"),
                        output_section()}}) {}

const Quantity& PrecisionStudy::error_of(const char* key, const char* title, int drop_order,
                                         const char* meaning) {
  return declare(key, "", meaning,
                 {.optional = true,
                  .title = title,
                  .drop_order = drop_order,
                  .timed = false,
                  .text = text_as("{:+.2e}")});
}

std::string PrecisionStudy::in_short(const RunStatistics& run) const {
  if (adds(run.run())) return fmt::format("sum {:.7f}", run.median(sum));
  return "dtypes read off the tensors";
}

Facts PrecisionStudy::facts(const Run& run) const {
  return adds(run) ? accumulation_facts(run) : dtype_facts(run);
}

std::vector<Finding> PrecisionStudy::findings(const std::vector<const RunStatistics*>& runs) const {
  return mapped(runs, [](const RunStatistics* run) {
    return adds(run->run()) ? accumulation_finding(*run) : dtypes_finding(*run);
  });
}

void PrecisionStudy::check(const Experiment& experiment) const {
  check_meaning(experiment);
  refuse_several_ranks(
      experiment,
      {.what = "experiment precision is of one rank: others would repeat it", .hint = "remove it"});
}

std::vector<std::string> PrecisionStudy::run_rank(const Experiment& experiment,
                                                  const PluginRegistry&,
                                                  const RunContext& context) const {
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
const PrecisionStudy& precision_study() {
  static const PrecisionStudy kind;
  return kind;
}

Accumulated accumulate_by_tensors(const DemonstrationConfig& config, c10::Device device) {
  const at::TensorOptions options(device);
  const auto added = config.sum == SumTypes::float32 ? at::kFloat : at::kHalf;
  const auto summed = config.sum == SumTypes::float16 ? at::kHalf : at::kFloat;
  const at::Tensor addend = at::full({}, config.addend, options.dtype(added));
  const at::Tensor sum = at::zeros({}, options.dtype(summed));
  const bool converted = config.sum == SumTypes::converted_float16_to_float32;
  for (std::int64_t i = 0; i < config.count; ++i) {
    sum.add_(converted ? addend.to(at::kFloat) : addend);
  }
  return {sum.item<double>(), addend.item<double>()};
}

Accumulated accumulate_by_scalars(const DemonstrationConfig& config) {
  switch (config.sum) {
    case SumTypes::float32:
      return add_scalars<float, float>(config);
    case SumTypes::float16:
      return add_scalars<c10::Half, c10::Half>(config);
    case SumTypes::float16_to_float32:
    case SumTypes::converted_float16_to_float32:
      return add_scalars<float, c10::Half>(config);
  }
  return {};
}

AutocastDtypes measure_autocast(AutocastType type, c10::Device device) {
  const at::ScalarType cast = type == AutocastType::float16 ? at::kHalf : at::kBFloat16;
  const ToyModel model(device);
  const at::Tensor x = numbers(kSamples, kInputs, device);
  const at::Tensor targets =
      at::arange(kSamples, at::TensorOptions(device).dtype(at::kLong)).remainder(kClasses);
  at::Tensor fc1, relu, norm, logits, loss;
  {
    const AutocastGuard autocast(device.type(), cast);
    fc1 = at::linear(x, model.fc1);
    relu = at::relu(fc1);
    norm = at::layer_norm(relu, {kHidden}, model.norm_weight, model.norm_bias);
    logits = at::linear(norm, model.fc2);
    loss = at::cross_entropy_loss(logits, targets);
  }
  loss.backward();
  const auto gradients = mapped(model.parameters(), &at::Tensor::grad);
  AutocastDtypes out;
  out.tensors = {{"parameters", types_of(model.parameters())},
                 {"fc1", types_of({fc1})},
                 {"ReLU", types_of({relu})},
                 {"layer norm", types_of({norm})},
                 {"logits", types_of({logits})},
                 {"loss", types_of({loss})},
                 {"gradients", types_of(gradients)}};
  out.finite = all_finite({fc1, relu, norm, logits, loss}) && all_finite(gradients);
  out.fc1_by_hand = at::equal(fc1, at::linear(x.to(cast), model.fc1.detach().to(cast)));
  return out;
}

}  // namespace ddprun
