// Asks the plugins before the first of them acts, and holds plans against each other.
#include "ddprun/parallel/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/device/device.h"
#include "ddprun/optim/parameter_check.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/plugin/ask_plugin.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

namespace {

/// A line for each parameter, with all that decides where it lies in the buffers.
std::vector<std::string> described(const ParameterRoles& roles) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < roles.names.size(); ++i) {
    const auto [trained, number] = roles.places[i];
    const NamedTensor& parameter = (trained ? roles.trained : roles.frozen)[number];
    const at::Tensor& tensor = parameter.tensor;
    std::string line = fmt::format("{}, {} {}", roles.names[i], at::toString(tensor.scalar_type()),
                                   shape_text(tensor.sizes()));
    if (tensor.layout() == at::kStrided && !tensor.is_contiguous()) {
      line += " with strides " + shape_text(tensor.strides());
    }
    if (!trained) line += ", frozen";
    if (parameter.name != roles.names[i]) line += ", tied to " + parameter.name;
    lines.push_back(line);
  }
  return lines;
}

/// What travels is laid out by each rank's own model. All ranks call it.
void check_same_model(const ParameterRoles& roles, ProcessGroup& group) {
  const auto other =
      first_other_line(group, described(roles), "no parameter more",
                       {.what = "the ranks' models are not the same",
                        .where = "the model's parameters",
                        .hint = "each rank registers the same parameters in the same order, lays "
                                "them out alike, and freezes the same"});
  if (other) throw ConfigError(*other);
}

std::string text_of(const Plugin& plugin) { return plugin.called + " " + plugin.options_text; }

std::string text_of(const OptimizerConfig& optimizer) {
  std::string out =
      fmt::format("optimizer {} of betas {}, eps {}, weight_decay {}, momentum {}{}",
                  name_of(optimizer.name), fmt::join(optimizer.betas, " and "), optimizer.eps,
                  optimizer.weight_decay, optimizer.momentum, optimizer.overlap ? ", overlap" : "");
  for (const ParameterGroup& group : optimizer.groups) {
    out += fmt::format("; of {}: lr_scale {}, weight_decay {}", group.match, group.lr_scale,
                       group.weight_decay.value_or(optimizer.weight_decay));
  }
  return out;
}

/// Unless the plans of all have this number of shards, and it divides the ranks. All ranks call it.
void check_shards(ProcessGroup& group, int shards) {
  const std::vector<std::string> all = group.all_gather_object(std::to_string(shards));
  const bool equal = std::ranges::count(all, all[0]) == std::ssize(all);
  if (equal && (shards == 0 || group.size() % shards == 0)) return;
  throw ConfigError(
      {.what = "the ranks cannot be cut into groups of one size",
       .where = "the strategy's plan()",
       .got = fmt::format("{} ranks, which plan groups of {}", group.size(), fmt::join(all, ", ")),
       .expected = "one size on all ranks, which divides their number",
       .hint = "hosts with unequal numbers of ranks need a size that is given"});
}

std::vector<std::string> described(const Plan& plan) {
  std::vector<std::string> lines;
  for (const auto& [kind, bytes, in] : plan.collectives) {
    lines.push_back(fmt::format("a plan with {} of {} bytes{}", name_of(kind), bytes,
                                in == PlannedIn::update ? " in update()" : ""));
  }
  return lines;
}

/// `lines`: what each rank's program chose, or what follows from it. All ranks call it.
void check_same_choices(const std::vector<std::string>& lines, ProcessGroup& group) {
  const auto other =
      first_other_line(group, lines, "a plan without more",
                       {.what = "the ranks were given different plugins, options or optimizers",
                        .where = "DataParallel",
                        .hint = "each rank takes them from the same names and numbers"});
  if (other) throw ConfigError(*other);
}

/// Lets the precision convert all parameters.
void convert(const ParameterRoles& roles, Precision& precision) {
  std::vector<NamedTensor> parameters = roles.trained;
  parameters.insert(parameters.end(), roles.frozen.begin(), roles.frozen.end());
  called(precision, "convert()", [&] { precision.convert(parameters); });
  check_tensors(parameters);
}

[[noreturn]] void refuse_ownership(std::int64_t element, const ParameterLayout& layout) {
  throw Error(
      {.what = "the ranks' plans do not own each element once",
       .where = "the strategy's plan()",
       .got = fmt::format("element {} of {} owned by none or by two", element, layout.all().end),
       .expected = "owned ranges that make up the whole buffer",
       .hint = "ParameterLayout::slice() cuts whole units into equal parts; a rank that owns "
               "nothing names an empty range"});
}

bool by_begin(const Range& a, const Range& b) { return a.begin < b.begin; }

/// By rank.
using Owned = std::vector<std::vector<Range>>;

/// Nothing if every element is owned once by the ranks from `first` on, `shards` of them.
std::optional<std::int64_t> element_out_of_place(const Owned& owned, const ParameterLayout& layout,
                                                 int first, int shards) {
  std::vector<Range> all;
  for (int rank = first; rank < first + shards; ++rank) {
    if (owned[rank].empty()) all.push_back(layout.all());
    std::copy_if(owned[rank].begin(), owned[rank].end(), std::back_inserter(all),
                 [](const Range& range) { return range.size() > 0; });
  }
  std::ranges::sort(all, by_begin);
  all.push_back({layout.all().end, layout.all().end});  // up to here nothing may be missing
  std::int64_t end = 0;
  for (const Range& range : all) {
    if (range.begin != end) return std::min(range.begin, end);
    end = range.end;
  }
  return std::nullopt;
}

Plan checked_plan(const Strategy& strategy, const ParameterLayout& layout, int rank) {
  Plan plan;
  Owned owned;
  for (int each = 0; each < layout.ranks(); ++each) {
    Plan of_each = ask_plan(strategy, layout, each);
    owned.push_back(of_each.holding.owned);
    if (each == rank) plan = std::move(of_each);
  }
  std::ranges::sort(plan.holding.owned, by_begin);
  const bool in_parts =
      std::ranges::any_of(owned, [](const auto& ranges) { return !ranges.empty(); });
  const bool uneven = plan.holding.shards != 0 && layout.ranks() % plan.holding.shards != 0;
  if (!in_parts || uneven) return plan;  // check_shards() refuses it, on all ranks
  const int shards = plan.holding.shards == 0 ? layout.ranks() : plan.holding.shards;
  for (int first = 0; first < layout.ranks(); first += shards) {
    const auto element = element_out_of_place(owned, layout, first, shards);
    if (element) refuse_ownership(*element, layout);
  }
  return plan;
}

}  // namespace

Preparation prepare(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                    const Strategy& strategy, Precision& precision,
                    const OptimizerConfig& optimizer, RunDescription run, StepExtent extent) {
  ParameterRoles roles(parameters);
  check_same_choices({text_of(strategy), text_of(precision), text_of(optimizer)}, group);
  check_same_model(roles, group);
  run.optimizer = optimizer;
  run.world_size = group.size();
  if (const c10::Device device = group.device().torch_device(); !device.is_meta()) {
    run.device = device.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
    run.compute_capability = group.device().compute_capability();
  }
  run = described_with(std::move(run), precision);
  ask_plugin(precision, run, "DataParallel");
  ask_plugin(strategy, run, "DataParallel");
  convert(roles, precision);
  ParameterLayout layout(roles.trained, precision.dtypes().buffers, run.kernels, group.size(),
                         group.ranks_per_host());
  Plan plan{.holding = {.gradients = Placement::none}};
  if (extent != StepExtent::forward) plan = checked_plan(strategy, layout, group.rank());
  check_shards(group, plan.holding.shards);
  check_same_choices(described(plan), group);
  return {std::move(roles), std::move(layout), std::move(run), std::move(plan)};
}

ProcessGroup& shard_group_of(ProcessGroup& group, int shards) {
  if (shards == 0) return group;
  std::vector<int> ranks(shards);
  std::iota(ranks.begin(), ranks.end(), group.rank() / shards * shards);
  return group.subgroup(ranks);
}

}  // namespace ddprun
