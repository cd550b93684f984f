// The option `model.recompute`, and the groups of blocks that it means.
#include "ddprun/model/recompute_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/options.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

[[noreturn]] void refuse(const RecomputeConfig& config, ErrorText text) {
  text.where = "model.recompute";
  text.got = to_string(config);
  throw ConfigError(std::move(text));
}

void check_numbers(const RecomputeConfig& config) {
  if (config.groups && (config.every || config.keep_last)) {
    refuse(config, {.what = "model.recompute cuts the blocks in two ways at once",
                    .expected = "{groups: n}, or {every: k, keep_last: m}",
                    .hint = "remove one of them"});
  }
  if (config.keep_last && !config.every) {
    refuse(config,
           {.what = "model.recompute says which blocks to keep, and not which to compute again",
            .expected = "{every: k, keep_last: m}",
            .hint = "add `every: 1`"});
  }
}

/// Blocks [0, blocks) in `groups` groups.
std::vector<RecomputedBlocks> in_groups(const RecomputeConfig& config, std::int64_t blocks) {
  const std::int64_t groups = *config.groups;
  if (groups > blocks) {
    refuse(config, {.what = fmt::format("the model has {}, too few for {} groups",
                                        counted(blocks, "block"), groups),
                    .expected = fmt::format("groups 1 to {}", blocks),
                    .hint = "lower groups, or raise model.layers"});
  }
  std::vector<RecomputedBlocks> plan;
  std::int64_t first = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t size = blocks / groups + (group < blocks % groups ? 1 : 0);
    plan.push_back({first, first + size});
    first += size;
  }
  return plan;
}

/// Groups of `every` blocks, but for the last blocks, which are kept.
std::vector<RecomputedBlocks> of_size(const RecomputeConfig& config, std::int64_t blocks) {
  const std::int64_t kept = config.keep_last.value_or(0);
  const std::int64_t again = blocks - kept;
  if (again < 1) {
    refuse(config,
           {.what = fmt::format("keep_last {} of {} leaves none to compute again", kept,
                                counted(blocks, "block")),
            .expected = blocks == 1 ? "keep_last 0" : fmt::format("keep_last 0 to {}", blocks - 1),
            .hint = "lower keep_last, or write `recompute: none`"});
  }
  if (*config.every > again) {
    refuse(config, {.what = fmt::format("there is no group of {}: {} would be computed again",
                                        counted(*config.every, "block"), counted(again, "block")),
                    .expected = fmt::format("every 1 to {}", again),
                    .hint = "lower every or keep_last"});
  }
  std::vector<RecomputedBlocks> plan;
  for (std::int64_t first = 0; first < again; first += *config.every) {
    plan.push_back({first, std::min(first + *config.every, again)});
  }
  return plan;
}

std::vector<RecomputedBlocks> by_halves(const RecomputeConfig& config, std::int64_t blocks) {
  if (blocks < 2) {
    refuse(config, {.what = "there is nothing to halve: the model has one block",
                    .expected = "model.layers >= 2",
                    .hint = "write `recompute: every_block`"});
  }
  std::vector<RecomputedBlocks> plan;
  for (std::int64_t first = 0; blocks - first > 1;) {
    const std::int64_t middle = first + (blocks - first) / 2;
    plan.push_back({first, middle, true});
    first = middle;
  }
  return plan;
}

}  // namespace

void declare_option(Options& options, RecomputeConfig& config) {
  options.choice_or_section(
      "recompute", &config.form, "which blocks backward computes again instead of keeping them",
      [&config](Options& inside) {
        inside.option("groups", &config.groups, "nearly equal groups that the blocks are cut into",
                      {.min = 1});
        inside.option("every", &config.every, "blocks in a group", {.min = 1});
        inside.option("keep_last", &config.keep_last,
                      "with every: last blocks that keep their activations", {.min = 0});
      });
}

std::string to_string(const RecomputeConfig& config) {
  std::vector<std::string> numbers;
  for (const auto& [key, value] : {std::pair{"groups", config.groups},
                                   {"every", config.every},
                                   {"keep_last", config.keep_last}}) {
    if (value) numbers.push_back(fmt::format("{}: {}", key, *value));
  }
  return numbers.empty() ? name_of(config.form) : fmt::format("{{{}}}", fmt::join(numbers, ", "));
}

std::vector<RecomputedBlocks> recompute_plan(const RecomputeConfig& config, std::int64_t layers) {
  check_numbers(config);
  if (config.groups) return in_groups(config, layers);
  if (config.every) return of_size(config, layers);
  if (config.form == RecomputeForm::none) return {};
  if (config.form == RecomputeForm::recursive) return by_halves(config, layers);
  RecomputeConfig blocks;
  blocks.every = 1;
  return of_size(blocks, layers);
}

}  // namespace ddprun
