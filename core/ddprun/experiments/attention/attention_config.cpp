// The options of the section `attention_call:`.
#include "ddprun/experiments/attention/attention_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

c10::ScalarType scalar_type(AttentionType type) {
  constexpr std::array kTypes = {c10::kFloat, c10::kBFloat16, c10::kHalf};
  return kTypes.at(static_cast<std::size_t>(type));
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

}  // namespace ddprun
