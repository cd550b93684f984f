// Text that a model goes on with, token by token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "ddprun/model/sampling.h"

namespace ddprun {

/// Returns `tokens` tokens that follow the prompt, which has one at least. `logits` takes ids (1,
/// T) int64, T at most `context_length`, and returns (1, T, V): the last position's are used. It is
/// called once a token, so that ranks that share a model call it alike.
std::vector<std::int64_t> generate(const std::function<at::Tensor(const at::Tensor& ids)>& logits,
                                   std::vector<std::int64_t> prompt, std::int64_t context_length,
                                   const Sampling& sampling);

}  // namespace ddprun
