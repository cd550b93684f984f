// A plugin's refusal as an error of the configuration.
#include "ddprun/config/ask_plugin.h"

#include <fmt/format.h>

#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/config/plugin_library.h"

namespace ddprun {

namespace {

std::string described(const RunDescription& run) {
  return fmt::format(
      "{} rank{} on {} with {}, {} kernels, products in {}, {} heads of {}, context {}, {} "
      "sequences "
      "in a micro-batch",
      run.world_size, run.world_size == 1 ? "" : "s", name_of(run.device), name_of(run.backend),
      name_of(run.kernels), c10::toString(run.compute_dtype), run.heads, run.head_dim,
      run.context_length, run.micro_batch);
}

}  // namespace

void ask_plugin(const Plugin& plugin, const PluginChoice& choice, const RunDescription& run) {
  const auto refusal = plugin.unsupported(run);
  if (!refusal) return;
  const char* const kind = to_string(choice.kind);
  throw ConfigError({.what = fmt::format("{} \"{}\" cannot run in this experiment: {}", kind,
                                         choice.name, refusal->reason),
                     .where = choice.options.origin,
                     .got = described(run),
                     .expected = refusal->expected,
                     .hint = refusal->hint.empty()
                                 ? fmt::format("take another {}: `ddprun list` shows them", kind)
                                 : refusal->hint});
}

}  // namespace ddprun
