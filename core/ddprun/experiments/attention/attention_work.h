// How much a call of attention computes and how much memory it takes, by formula.
#pragma once

#include <optional>

#include "ddprun/experiments/attention/attention_config.h"

namespace ddprun {

/// Operations of the matrix products, as FlashAttention-2 counts them (Dao 2023, section 4.1): 4 x
/// pairs x head_dim forward, 2.5 times as many backward. Pairs of a query and a key that it sees:
/// if causal, of n queries and n keys n^2 / 2 in each head.
double attention_flops(const AttentionConfig& config);

/// The account of a call in bytes: what there is at the start (q, k, v), the output (and, with
/// backward, its gradient), and what the attention says (AttentionMemory).
struct AttentionAccount {
  double inputs = 0;
  double output = 0;
  double scores = 0;    ///< at the peak of forward
  double saved = 0;     ///< kept for backward
  double backward = 0;  ///< at the peak of backward, with the gradients of q, k and v

  double before_backward() const { return inputs + output + saved; }
  double peak() const;
};
/// `own`: what the attention says; if it says nothing, the account has the tensors that every
/// attention has.
AttentionAccount attention_account(const AttentionConfig& config,
                                   const std::optional<AttentionMemory>& own);

}  // namespace ddprun
