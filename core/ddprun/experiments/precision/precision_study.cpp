// What the demonstrations say in a table, and in sentences below it.
#include "ddprun/experiments/precision/precision_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/base/ranges.h"
#include "ddprun/experiments/precision/demonstrations.h"
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

}  // namespace

PrecisionStudy::PrecisionStudy(KindFile file)
    : RunnableKind(
          {.name = "precision",
           .table_note = "What was computed once, on one rank; errors are against float64",
           .checks = {{"sum_by_scalars", "the sum that of scalar arithmetic, bit for bit"},
                      {"fc1_by_hand", "fc1's output that of operands cast by hand, bit for bit"},
                      {"finite", "all values finite"}}},
          std::move(file)) {}

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

}  // namespace ddprun
