// Softmax, one draw, the next token.
#include "ddprun/model/generate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
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

/// `logits`: (V,), of any floating dtype, on any device. `draw`: in [0, 1).
std::int64_t next_token(const at::Tensor& logits, const Sampling& sampling, double draw) {
  const at::Tensor wide = logits.to(at::kDouble).cpu();
  if (sampling.temperature == 0) return wide.argmax().item<std::int64_t>();
  const auto [chances, tokens] = at::sort(at::softmax(wide / sampling.temperature, -1),
                                          /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const at::Tensor sums = chances.cumsum(-1);
  const double* const begin = sums.const_data_ptr<double>();
  const double* const last = begin + sums.numel() - 1;
  const auto place_of = [&](double share) {  // rounding may leave the last sum below 1
    return std::min(std::upper_bound(begin, last + 1, share), last);
  };
  const double* const nucleus_end = std::min(std::lower_bound(begin, last, sampling.top_p), last);
  return tokens.const_data_ptr<std::int64_t>()[place_of(draw * *nucleus_end) - begin];
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
    text.push_back(next_token(last, sampling, drawn(sampling.seed, static_cast<std::uint64_t>(i))));
  }
  return {text.begin() + begin, text.end()};
}

}  // namespace ddprun
