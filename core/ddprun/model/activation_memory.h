// The memory of the blocks' activations, by formula: what recomputation saves.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/model/model_config.h"
#include "ddprun/model/recompute_config.h"

namespace ddprun {

/// Bytes of tensors. They are not integers, since a formula also holds for sizes that no machine
/// has.
struct BlockBytes {
  double stream = 0;  ///< what enters a block
  double block = 0;   ///< what a block keeps for its backward, the stream that entered it included
};

/// With the fused kernels, for rows = batch * time, d = d_model, e = `element_bytes` of the
/// products' dtype:
///     stream = 4 rows d
///     block  = rows (8 d + 6 e d + 2 e d_ff + 8) + attention
/// The addends: the streams before both norms; both norms' results, q, k, v and the attention's
/// output; w1's and w3's results; two inverse norms; and `attention_saved`, AttentionMemory::saved
/// of a call. An attention whose output does not lie as (batch, time, heads, head_dim) in memory
/// adds e rows d.
BlockBytes fused_block_bytes(const ModelConfig& config, std::int64_t rows,
                             std::int64_t element_bytes, double attention_saved);

struct ActivationBytes {
  double after_forward = 0;  ///< kept when backward begins
  double peak = 0;           ///< the most that is kept at a time, in backward
};

/// What `layers` blocks keep if those of `plan` are computed again.
ActivationBytes activation_bytes(const std::vector<RecomputedBlocks>& plan, std::int64_t layers,
                                 BlockBytes bytes);

}  // namespace ddprun
