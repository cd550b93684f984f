// What the kind asks of plugin and machine, what its rank does (one call whose memory is counted
// and whose results are proved, then those that are timed), the figures of a call, and how its
// memory grows with the length.
#include "ddprun/experiments/attention/attention_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/registry.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/device/device_library.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/measure/phase.h"
#include "ddprun/plugin/ask_plugin.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/called.h"
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "ddprun/proof/attention/attention_trial.h"
#include "ddprun/rank/connected_rank.h"
#include "ddprun/rank/repetition.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/rank_result.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

using nlohmann::json;

const json& call_of(const Run& run) { return run.config.at("attention_call"); }

double length_of(const RunStatistics& run) { return call_of(run.run()).at("length").get<double>(); }

/// "sdpa, backend auto"
std::string plugin_text(const json& choice) {
  auto text = choice.at("name").get<std::string>();
  for (const auto& [key, value] : choice.items()) {
    if (key == "name" || key == "path") continue;
    text +=
        fmt::format(", {} {}", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

/// What the runs of one line have in common: all that tells them apart but their length.
std::string line_of(const RunStatistics& run) {
  const Run& of = run.run();
  const json& call = call_of(of);
  return fmt::format("{}, {}, batch {}, heads {}, head_dim {}, {}",
                     plugin_text(of.config.at("attention")), call.at("dtype").get<std::string>(),
                     call.at("batch").dump(), call.at("heads").dump(), call.at("head_dim").dump(),
                     call.at("causal").get<bool>() ? "causal" : "full");
}

/// The power of the length with which memory before backward grows, shortest run to longest.
Finding growth(const std::string& name, const RunStatistics& from, const RunStatistics& to) {
  const AttentionKind& kind = attention_kind();
  const double bytes = from.median(kind.before_backward_bytes);
  const double more = to.median(kind.before_backward_bytes);
  if (!(bytes > 0 && more > 0)) return {};
  const double power = std::log(more / bytes) / std::log(length_of(to) / length_of(from));
  return {
      fmt::format("{}: from length {:.0f} to {:.0f} memory before backward grows from {:.3g} to "
                  "{:.3g} MB, as length^{:.2f}",
                  name, length_of(from), length_of(to), bytes * 1e-6, more * 1e-6, power),
      {{"kind", kind.name()},
       {"runs", name},
       {"from_length", length_of(from)},
       {"to_length", length_of(to)},
       {"power", power}}};
}

/// Of a GPU that the plugin is not asked about yet: above all that there are.
constexpr int kAnyCapability = std::numeric_limits<int>::max();

RunDescription describe(const Experiment& experiment, int compute_capability) {
  const auto& call = experiment.as<AttentionConfig>();
  const AttentionSizes sizes = call.sizes();
  return {.world_size = 1,
          .device = experiment.world.device,
          .compute_capability = experiment.world.device == DeviceKind::cpu ? 0 : compute_capability,
          .backend = experiment.world.comm.backend,
          .micro_batch = sizes.batch,
          .context_length = std::max(sizes.queries, sizes.keys),
          .heads = sizes.heads,
          .head_dim = sizes.head_dim,
          .dtypes = {.compute = scalar_type(call.dtype)}};
}

/// What the attention says of its memory.
std::optional<AttentionMemory> memory_of(const AttentionConfig& call, const Attention& attention) {
  return called(attention, "memory()", [&] { return attention.memory(call.sizes()); });
}

void check_memory(const Experiment& experiment, const Attention& attention) {
  if (!experiment.world.memory_check) return;
  const auto& call = experiment.as<AttentionConfig>();
  const double needed = attention_account(call, memory_of(call, attention)).peak();
  const double limit = experiment.world.memory_limit_gb * 1e9;
  refuse_above(
      experiment, "attention_call",
      {.each = limit > 0 ? std::min(needed, limit) : needed,
       .of = "at its peak, by the attention's formula"},
      static_cast<double>(available_memory()),
      {.what = fmt::format("attention \"{}\" would take more than this machine's free memory",
                           experiment.plugins.front().name),
       .hint = "a shorter length, another attention, or world.memory_limit_gb, under which "
               "it runs until its memory ends"});
}

/// What is the same in every sample.
using Constants = std::vector<std::pair<const Quantity*, double>>;

/// The first call: what comes out of it, and the memory that it took.
struct FirstCall {
  std::unique_ptr<AttentionTrial> trial;
  TrialResults results;
  Constants memory;
};

FirstCall first_call(const AttentionConfig& config, Attention& attention, Device& device) {
  const AttentionKind& q = attention_kind();
  FirstCall first;
  const auto counting = device.count_memory();
  const auto before = static_cast<double>(device.memory().allocated_bytes);
  first.trial = std::make_unique<AttentionTrial>(config, attention, device);
  device.synchronize();
  device.reset_memory();
  TrialMarks marks;
  first.results = first.trial->run(marks, [&] {
    const auto now = static_cast<double>(device.memory().allocated_bytes);
    first.memory.emplace_back(&q.before_backward_bytes, now - before);
  });
  const auto peak = static_cast<double>(device.memory().peak_allocated_bytes);
  first.memory.emplace_back(&q.peak_bytes, peak - before);
  return first;
}

/// Adds the checks to `result`. Returns the errors, or nothing if one is too large.
std::optional<Constants> prove(const AttentionConfig& config, const TrialInputs& inputs,
                               const TrialResults& results, RankResult& result) {
  const AttentionKind& q = attention_kind();
  const std::map<std::string, const Quantity*> quantities = {
      {"output", &q.output_error}, {"dq", &q.dq_error}, {"dk", &q.dk_error}, {"dv", &q.dv_error}};
  Constants out;
  double largest = 0;
  bool right = true;
  for (const ResultError& each : find_errors(config, inputs, results)) {
    result.checks.push_back(check_of(each, config.dtype));
    right = right && result.checks.back().status == CheckStatus::passed;
    out.emplace_back(quantities.at(each.name), each.error);
    largest = std::max(largest, each.error);
  }
  out.emplace_back(&q.error, largest);
  return right ? std::optional(out) : std::nullopt;
}

Sample take_sample(AttentionTrial& trial, Device& device, bool backward, RankResult& result) {
  const AttentionKind& q = attention_kind();
  device.synchronize();
  TrialMarks marks;
  trial.run(marks);
  const std::int64_t begin = device.time_of(marks.begin);
  const std::int64_t middle = device.time_of(marks.forward_end);
  const std::int64_t end = device.time_of(marks.end);
  Sample sample(q);
  sample[q.time_ms] = to_ms(end - begin);
  sample[q.forward_ms] = to_ms(middle - begin);
  if (backward) sample[q.backward_ms] = to_ms(end - middle);
  StepTimeline timeline{.begin_ns = begin, .phases = {{to_string(Phase::forward), begin, middle}}};
  if (backward) timeline.phases.push_back({to_string(Phase::backward), middle, end});
  result.timeline = {std::move(timeline)};
  return sample;
}

}  // namespace

AttentionKind::AttentionKind()
    : RunnableKind({.name = "attention",
                    .table_note = "Times in milliseconds: median over the measured calls (± "
                                  "standard deviation); memory in 1e6 bytes",
                    .memory_hint = "a shorter length, or another attention",
                    .checks = {{"output", "output against float64"},
                               {"dq", "dq against float64"},
                               {"dk", "dk against float64"},
                               {"dv", "dv against float64"}}},
                   {.own = AttentionConfig(),
                    .sections = {world_section(),
                                 own_section<AttentionConfig>(
                                     "attention_call", "the sizes of attention that is measured"),
                                 repeat_section(), output_section()},
                    .plugins = {PluginKind::attention}}) {}

const Quantity& AttentionKind::bytes_of_call(const char* key, const char* title, int drop_order,
                                             const char* meaning, const char* of_work) {
  return declare(key, "bytes", meaning,
                 {.over_ranks = OverRanks::max,
                  .of_work = of_work,
                  .title = title,
                  .drop_order = drop_order,
                  .timed = false,
                  .text = text_as("{:.1f}", 1e-6)});
}

const Quantity& AttentionKind::bytes_by_formula(const char* key, const char* title, int drop_order,
                                                const char* meaning) {
  return bytes_of_call(key, title, drop_order, meaning, key);
}

const Quantity& AttentionKind::error_of(const char* key, const char* result) {
  return declare(
      key, "",
      fmt::format(
          "the largest error against float64 of the rows of {} that were compared. –: none were",
          result),
      {.optional = true, .over_ranks = OverRanks::max, .timed = false});
}

std::string AttentionKind::in_short(const RunStatistics& run) const {
  return fmt::format("{:.2f} ms, error {:.1e}", run.median(time_ms), run.median(error));
}

std::vector<std::pair<std::string, std::string>> AttentionKind::facts(const Run& run) const {
  const json& call = call_of(run);
  const auto number = [&call](const char* key) { return call.at(key).get<std::int64_t>(); };
  const std::int64_t keys = number("keys") > 0 ? number("keys") : number("length");
  return {{"attention", plugin_text(run.config.at("attention"))},
          {"type", call.at("dtype").get<std::string>()},
          {"batch x heads", fmt::format("{} x {}", number("batch"), number("heads"))},
          {"length x keys", fmt::format("{} x {}", number("length"), keys)},
          {"head_dim", call.at("head_dim").dump()},
          {"mask", call.at("causal").get<bool>() ? "causal" : "none"},
          {"passes", call.at("passes").get<std::string>()}};
}

std::vector<Finding> AttentionKind::findings(const std::vector<const RunStatistics*>& runs) const {
  struct Ends {
    const RunStatistics *shortest = nullptr, *longest = nullptr;
  };
  Groups<Ends> lines;
  for (const RunStatistics* run : runs) {
    if (call_of(run->run()).at("passes") == "forward") continue;
    auto& [shortest, longest] = lines[line_of(*run)];
    if (shortest == nullptr || length_of(*run) < length_of(*shortest)) shortest = run;
    if (longest == nullptr || length_of(*run) > length_of(*longest)) longest = run;
  }
  std::vector<Finding> out;
  for (const auto& [name, ends] : lines) {
    if (length_of(*ends.shortest) == length_of(*ends.longest)) continue;
    if (Finding finding = growth(name, *ends.shortest, *ends.longest); !finding.text.empty()) {
      out.push_back(std::move(finding));
    }
  }
  return out;
}

Figure AttentionKind::find_tflops(const RunStatistics& run) {
  const double ms = run.median(attention_kind().time_ms);
  const auto flops = run.run().work.at("flops").get<double>();
  return ms > 0 ? Figure{flops / ms * 1e-9} : Figure{};
}

Figure AttentionKind::find_peak_share(const RunStatistics& run) {
  const Figure own = find_tflops(run);
  const double peak = run.median(attention_kind().product_tflops);
  return own.value && peak > 0 ? Figure{*own.value / peak} : Figure{};
}

void AttentionKind::check(const Experiment& experiment) const {
  refuse_several_ranks(experiment, {.what = "experiment attention measures one rank",
                                    .hint = "attention does not communicate: remove it"});
}

void AttentionKind::check_plugins(const Experiment& experiment,
                                  const PluginRegistry& registry) const {
  const PluginChoice& choice = experiment.plugins.front();
  ask_plugin(*make_attention(registry, choice), describe(experiment, kAnyCapability),
             choice.options.origin);
}

std::optional<Account> AttentionKind::check_machine(const Experiment& experiment,
                                                    const PluginRegistry& registry,
                                                    std::int64_t /*local_ranks*/) const {
  const PluginChoice& choice = experiment.plugins.front();
  const auto attention = make_attention(registry, choice);
  const DeviceKind device = experiment.world.device;
  if (device == DeviceKind::cpu) {
    check_memory(experiment, *attention);
  } else {
    ask_plugin(*attention, describe(experiment, compute_capability(device)), choice.options.origin);
  }
  return {};
}

nlohmann::json AttentionKind::work(const Experiment& experiment,
                                   const PluginRegistry& registry) const {
  return attention_work(experiment.as<AttentionConfig>(),
                        *make_attention(registry, experiment.plugins.front()));
}

std::vector<std::string> AttentionKind::run_rank(const Experiment& experiment,
                                                 const PluginRegistry& registry,
                                                 const RunContext& context) const {
  const auto& call = experiment.as<AttentionConfig>();
  ConnectedRank rank(experiment, context);
  rank.connect();
  rank.result().matmul_dtype = name_of(call.dtype);
  {
    const PluginChoice& choice = experiment.plugins.front();
    const auto attention = make_attention(registry, choice);
    measure_attention(
        call, experiment.repeat, *attention, rank.group(),
        [&](const Sample& sample) { rank.sample_done(sample); }, rank.result());
  }
  return rank.finish();
}

nlohmann::json attention_work(const AttentionConfig& call, const Attention& attention) {
  const AttentionKind& q = attention_kind();
  const auto own = memory_of(call, attention);
  const AttentionAccount account = attention_account(call, own);
  nlohmann::json out = {{"flops", attention_flops(call)},
                        {q.inputs_bytes.of_work, account.inputs},
                        {q.output_bytes.of_work, account.output}};
  if (!own) return out;
  out[q.scores_bytes.of_work] = account.scores;
  out[q.before_backward_formula_bytes.of_work] = account.before_backward();
  out[q.peak_formula_bytes.of_work] = account.peak();
  if (!call.backward()) return out;
  out[q.saved_bytes.of_work] = account.saved;
  out[q.backward_bytes.of_work] = account.backward;
  return out;
}

const AttentionKind& attention_kind() {
  static const AttentionKind kind;
  return kind;
}

void measure_attention(const AttentionConfig& config, const RepeatConfig& repeat,
                       Attention& attention, ProcessGroup& group,
                       const std::function<void(const Sample&)>& on_sample, RankResult& result) {
  Device& device = group.device();
  FirstCall first = first_call(config, attention, device);
  const auto errors = prove(config, first.trial->inputs(), first.results, result);
  if (!errors) return;
  first.results = {};
  Constants constants = std::move(first.memory);
  constants.insert(constants.end(), errors->begin(), errors->end());
  constants.emplace_back(&attention_kind().product_tflops,
                         product_flops(device, scalar_type(config.dtype)) * 1e-12);
  Repetition repetition(repeat, group);
  for (std::int64_t index = 0; repetition.goes_on(index); ++index) {
    Sample sample = take_sample(*first.trial, device, config.backward(), result);
    sample.step = index;
    sample.warmup = index < repeat.warmup;
    for (const auto& [quantity, value] : constants) sample[*quantity] = value;
    on_sample(sample);
    result.samples.push_back(std::move(sample));
  }
}

}  // namespace ddprun
