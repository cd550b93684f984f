// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"):
// which blocks keep only what enters them, so that backward computes them again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Options;

/// `model.recompute` as a name.
enum class RecomputeForm { none, every_block, recursive };
constexpr auto choice_names(RecomputeForm) {
  return std::array{"none", "every_block", "recursive"};
}

/// `model.recompute`: a name, or a mapping {groups: n} or {every: k, keep_last: m}. If a number is
/// there, `form` does not count.
struct RecomputeConfig {
  RecomputeForm form = RecomputeForm::none;
  std::optional<std::int64_t> groups = {}, every = {}, keep_last = {};

  /// Whether nothing is computed again.
  bool none() const { return form == RecomputeForm::none && !groups && !every && !keep_last; }
};

/// Declares the option `recompute` of the section `model:`.
void declare_option(Options& options, RecomputeConfig& config);

/// As YAML has it: "every_block", "{groups: 4}".
std::string to_string(const RecomputeConfig& config);

/// Consecutive blocks [first, last). Of their activations only what enters the first is kept, until
/// backward computes them again.
struct RecomputedBlocks {
  std::int64_t first = 0, last = 0;
  /// Backward computes them by halves (Chen et al. 2016, section 4.3): first up to the middle,
  /// whose stream it keeps while it goes through the second half, then the first half; each half by
  /// halves again. So the activations of one block exist at a time.
  bool halve = false;

  std::int64_t size() const { return last - first; }
  friend bool operator==(const RecomputedBlocks&, const RecomputedBlocks&) = default;
};

/// The groups of a model of `layers` blocks, in the order of the forward. Blocks behind the last
/// group keep their activations.
///     every_block             groups of one block
///     {groups: n}             n groups, whose sizes differ by one at most; the larger come first
///     {every: k, keep_last: m}  groups of k blocks (the last of them may be smaller); the last m
///                             blocks are in none. Default: m = 0
///     recursive               half of the blocks, half of the others, ..., down to the last block,
///                             which is in none; each group is computed by halves
/// Throws ConfigError if the numbers contradict each other or do not fit `layers`.
std::vector<RecomputedBlocks> recompute_plan(const RecomputeConfig& config, std::int64_t layers);

}  // namespace ddprun
