// Of which sizes attention is measured: the YAML section `attention_call:`.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

#include "ddprun/plugin/attention_sizes.h"

namespace ddprun {

class Options;

/// What q, k and v are in.
enum class AttentionType : std::uint8_t { float32, bfloat16, float16 };
constexpr auto choice_names(AttentionType) { return std::array{"float32", "bfloat16", "float16"}; }
c10::ScalarType scalar_type(AttentionType type);

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

}  // namespace ddprun
