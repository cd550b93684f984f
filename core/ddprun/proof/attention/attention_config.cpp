// The options of the section `attention_call:`, and formulas in double: sizes that no machine has
// do not overflow.
#include "ddprun/proof/attention/attention_config.h"

#include <algorithm>

#include "ddprun/base/options.h"
#include "ddprun/kernels/operations.h"

namespace ddprun {

namespace {

/// In the order of AttentionType.
constexpr std::array kTypes = {c10::kFloat, c10::kBFloat16, c10::kHalf};

struct Sizes {
  double heads, queries, keys, head_dim;  // heads of all sequences
};

Sizes in_double(const AttentionSizes& sizes) {
  return {static_cast<double>(sizes.batch * sizes.heads), static_cast<double>(sizes.queries),
          static_cast<double>(sizes.keys), static_cast<double>(sizes.head_dim)};
}

}  // namespace

c10::ScalarType scalar_type(AttentionType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

AttentionType attention_type(c10::ScalarType dtype) {
  return static_cast<AttentionType>(std::ranges::find(kTypes, dtype) - kTypes.begin());
}

AttentionSizes AttentionConfig::sizes() const {
  return {.batch = batch,
          .heads = heads,
          .queries = length,
          .keys = keys > 0 ? keys : length,
          .head_dim = head_dim,
          .causal = causal,
          .element_bytes = dtype == AttentionType::float32 ? 4 : 2};
}

void declare_options(Options& o, AttentionConfig& c) {
  o.option("batch", &c.batch, "sequences", {.min = 1, .max = 65536});
  o.option("heads", &c.heads, "of a sequence", {.min = 1, .max = 65536});
  o.option("length", &c.length, "queries of a sequence", {.min = 1, .max = 1e7});
  o.option("keys", &c.keys, "keys and values of a sequence; 0: as many as queries",
           {.min = 0, .max = 1e7});
  o.option("head_dim", &c.head_dim, "width of a query, key or value", {.min = 1, .max = 65536});
  o.option("causal", &c.causal, "query i sees the keys 0 to i; false: all");
  o.option("dtype", &c.dtype, "of queries, keys and values");
  o.option("passes", &c.passes, "what is timed; forward: without gradients");
}

double attention_flops(const AttentionConfig& config) {
  constexpr double kBackward = 2.5;  // five products where forward has two
  const Sizes sizes = in_double(config.sizes());
  const double forward = 4 * sizes.heads *
                         kernels::visible_pairs(sizes.queries, sizes.keys, config.causal) *
                         sizes.head_dim;
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
