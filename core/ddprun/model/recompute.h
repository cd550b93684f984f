// A part of a model whose activations do not live until backward: backward computes it again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ddprun/model/recompute_config.h"

namespace ddprun {

/// Computes blocks [first, last) from the stream that enters them. It must not write into that, and
/// computes the same each time.
using Blocks =
    std::function<at::Tensor(const at::Tensor& stream, std::int64_t first, std::int64_t last)>;

/// Calls `part` as the forward was called: in the same dtypes, with autocast if there was one.
using AsInForward = std::function<at::Tensor(const std::function<at::Tensor()>& part)>;

/// Returns blocks(stream, group.first, group.last), computed without autograd. Its backward keeps
/// `stream` alone (saved-tensor hooks see it), computes the group within `as_in_forward` with
/// autograd, and runs backward through it: an engine call of its own within that of the caller, on
/// the same thread (on a GPU: autograd's, which has the forward's stream). Gradients of leaves
/// within are accumulated and their hooks run, once, layer by layer in the order without
/// recomputation. What `blocks` drew from random generators, it draws again.
/// In no-grad mode it only calls `blocks`. Some parameter within must require grad. What `blocks`
/// and `as_in_forward` refer to lives until backward is done or the graph is gone. Backward throws
/// Error in a call for chosen inputs (torch::autograd::grad), or with create_graph.
at::Tensor recomputed(const at::Tensor& stream, RecomputedBlocks group, const Blocks& blocks,
                      const AsInForward& as_in_forward);

}  // namespace ddprun
