// The expected result of a reduction over ranks, computed with ATen.
#pragma once

#include <ATen/Functions.h>

#include <vector>

#include "ddprun/comm/group/process_group.h"

namespace ddprun::test {

/// Adds the ranks' values one after another in rank order, bfloat16 in float32.
inline at::Tensor reduced(ReduceOp op, const std::vector<at::Tensor>& ranks) {
  const at::ScalarType type = ranks[0].scalar_type();
  const at::ScalarType wide = type == at::kBFloat16 ? at::kFloat : type;
  at::Tensor result = ranks[0].to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const at::Tensor next = ranks[rank].to(wide);
    if (op == ReduceOp::max) {
      result = at::maximum(result, next);
    } else {
      result.add_(next);
    }
  }
  if (op == ReduceOp::avg) result.div_(static_cast<double>(ranks.size()));
  return result.to(type);
}

}  // namespace ddprun::test
