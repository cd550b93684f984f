// Adds up what blocks keep, from the last block to the first.
#include "ddprun/model/activation_memory.h"

#include <algorithm>

namespace ddprun {

namespace {

/// The most that is kept while backward goes through `size` blocks, what enters them included.
double peak_of(std::int64_t size, bool halve, BlockBytes bytes) {
  if (!halve || size == 1) return static_cast<double>(size) * bytes.block;
  const std::int64_t first_half = size / 2;
  return std::max(bytes.stream + peak_of(size - first_half, true, bytes),
                  peak_of(first_half, true, bytes));
}

}  // namespace

BlockBytes fused_block_bytes(const ModelConfig& config, std::int64_t rows,
                             std::int64_t element_bytes, double attention_saved) {
  const auto r = static_cast<double>(rows);
  const auto d = static_cast<double>(config.d_model);
  const auto f = static_cast<double>(config.d_ff);
  const auto e = static_cast<double>(element_bytes);
  return {.stream = 4 * r * d, .block = r * (8 * d + 6 * e * d + 2 * e * f + 8) + attention_saved};
}

ActivationBytes activation_bytes(const std::vector<RecomputedBlocks>& plan, std::int64_t layers,
                                 BlockBytes bytes) {
  std::int64_t kept = layers;
  for (const RecomputedBlocks& group : plan) kept -= group.size();
  double before = static_cast<double>(plan.size()) * bytes.stream;
  ActivationBytes out;
  out.after_forward = out.peak = before + static_cast<double>(kept) * bytes.block;
  for (auto group = plan.rbegin(); group != plan.rend(); ++group) {
    before -= bytes.stream;
    out.peak = std::max(out.peak, before + peak_of(group->size(), group->halve, bytes));
  }
  return out;
}

}  // namespace ddprun
