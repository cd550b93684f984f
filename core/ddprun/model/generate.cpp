// Softmax, one draw, the next token.
#include "ddprun/model/generate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

namespace {

/// In [0, 1), of 53 bits.
double drawn(std::uint64_t seed, std::uint64_t number) {
  return std::ldexp(static_cast<double>(counter_hash(seed, number) >> 11), -53);
}

/// `logits`: (V,), of any floating dtype, on any device.
std::int64_t next_token(const at::Tensor& logits, double temperature, double draw) {
  const at::Tensor wide = logits.to(at::kDouble).cpu();
  if (temperature == 0) return wide.argmax().item<std::int64_t>();
  const at::Tensor sums = at::softmax(wide / temperature, -1).cumsum(-1);
  const double* const begin = sums.const_data_ptr<double>();
  const double* const end = begin + sums.numel();
  // Rounding may leave the last sum below 1.
  return std::min(std::upper_bound(begin, end, draw * end[-1]), end - 1) - begin;
}

}  // namespace

std::vector<std::int64_t> generate(const std::function<at::Tensor(const at::Tensor& ids)>& logits,
                                   std::vector<std::int64_t> prompt, std::int64_t context_length,
                                   const Sampling& sampling) {
  const c10::NoGradGuard no_grad;
  std::vector<std::int64_t>& text = prompt;
  const auto begin = std::ssize(text);
  for (std::int64_t i = 0; i < sampling.tokens; ++i) {
    const auto seen = std::min<std::int64_t>(std::ssize(text), context_length);
    const at::Tensor ids =
        at::tensor(at::ArrayRef<std::int64_t>(text).slice(text.size() - seen, seen), at::kLong);
    const at::Tensor last = logits(ids.unsqueeze(0)).select(0, 0).select(0, -1);
    text.push_back(next_token(last, sampling.temperature,
                              drawn(sampling.seed, static_cast<std::uint64_t>(i))));
  }
  return {text.begin() + begin, text.end()};
}

}  // namespace ddprun
