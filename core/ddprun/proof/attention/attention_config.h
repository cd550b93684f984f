// Of which sizes attention is measured (the YAML section `attention_call:`), how much such a call
// computes, and how much memory it takes, by formula.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>

#include "ddprun/plugin/attention_sizes.h"

namespace ddprun {

class Options;

/// What q, k and v are in.
enum class AttentionType : std::uint8_t { float32, bfloat16, float16 };
constexpr auto choice_names(AttentionType) { return std::array{"float32", "bfloat16", "float16"}; }
c10::ScalarType scalar_type(AttentionType type);
AttentionType attention_type(c10::ScalarType dtype);  ///< one of those three

/// What is timed: the call alone, without gradients, or with its backward.
enum class AttentionPasses : std::uint8_t { forward_backward, forward };
constexpr auto choice_names(AttentionPasses) { return std::array{"forward_backward", "forward"}; }

struct AttentionConfig {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t length = 1024;  ///< queries of a sequence
  std::int64_t keys = 0;       ///< of a sequence; 0: as many as queries
  std::int64_t head_dim = 64;
  bool causal = true;
  AttentionType dtype = AttentionType::float32;
  AttentionPasses passes = AttentionPasses::forward_backward;

  AttentionSizes sizes() const;
  bool backward() const { return passes == AttentionPasses::forward_backward; }
};

void declare_options(Options& options, AttentionConfig& config);

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
