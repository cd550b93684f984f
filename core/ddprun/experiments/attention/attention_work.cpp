// The formulas, in double: sizes that no machine has do not overflow.
#include "ddprun/experiments/attention/attention_work.h"

#include <algorithm>

namespace ddprun {

namespace {

struct Sizes {
  double heads, queries, keys, head_dim;  // heads of all sequences
};

Sizes in_double(const AttentionSizes& sizes) {
  return {static_cast<double>(sizes.batch * sizes.heads), static_cast<double>(sizes.queries),
          static_cast<double>(sizes.keys), static_cast<double>(sizes.head_dim)};
}

/// Of one head.
double visible_pairs(const Sizes& sizes, bool causal) {
  if (!causal) return sizes.queries * sizes.keys;
  const double square = std::min(sizes.queries, sizes.keys);
  return square * square / 2 + (sizes.queries - square) * sizes.keys;
}

}  // namespace

double attention_flops(const AttentionConfig& config) {
  constexpr double kBackward = 2.5;  // five products where forward has two
  const Sizes sizes = in_double(config.sizes());
  const double forward = 4 * sizes.heads * visible_pairs(sizes, config.causal) * sizes.head_dim;
  return config.backward() ? forward * (1 + kBackward) : forward;
}

double AttentionAccount::peak() const {
  return inputs + output + std::max(scores, saved + backward);
}

AttentionAccount attention_account(const AttentionConfig& config,
                                   const std::optional<AttentionMemory>& own) {
  const Sizes sizes = in_double(config.sizes());
  const double row =
      sizes.heads * sizes.head_dim * static_cast<double>(config.sizes().element_bytes);
  AttentionAccount account;
  account.inputs = row * (sizes.queries + 2 * sizes.keys);
  account.output = row * sizes.queries * (config.backward() ? 2 : 1);
  account.scores = own ? own->forward : 0;
  if (!config.backward()) return account;
  account.saved = own ? own->saved : 0;
  account.backward = account.inputs + (own ? own->backward : 0);
  return account;
}

}  // namespace ddprun
