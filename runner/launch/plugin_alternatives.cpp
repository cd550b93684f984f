// Asks plugins whether they can take part. Where one cannot, tries each installed one in its place.
#include "runner/launch/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddprun/base/crash_words.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/plugin/ask_plugin.h"
#include "runner/launch/exit_status.h"

namespace ddprun {

namespace {

constexpr std::size_t kNamed = 3;

/// "eager", "eager or sdpa", "a, b, c or one of 4 others"
std::string any_of(std::vector<std::string> names) {
  if (names.size() > kNamed + 1) {
    const std::size_t others = names.size() - kNamed;
    names.resize(kNamed);
    names.push_back(fmt::format("one of {} others", others));
  }
  if (names.size() == 1) return names.front();
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

std::string alternatives(const Experiment& experiment, const PluginRegistry& registry,
                         const std::function<void(const Experiment&)>& check) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < experiment.plugins.size(); ++i) {
    const PluginChoice& chosen = experiment.plugins[i];
    std::vector<std::string> names;
    for (const PluginInfo& info : registry.list()) {
      if (info.kind != chosen.kind || info.name == chosen.name) continue;
      Experiment other = experiment;
      other.plugins[i] = {.kind = info.kind, .name = info.name};
      other.plugins[i].options.origin = chosen.options.origin;
      try {
        check(other);
        names.push_back(info.name);
      } catch (const Error&) {  // it cannot either
      }
    }
    if (names.empty()) continue;
    out.push_back(fmt::format("{} {}", to_string(chosen.kind), any_of(std::move(names))));
  }
  return list_text(out, ", or ");
}

}  // namespace

void check_with_alternatives(const Experiment& experiment, const PluginRegistry& registry,
                             const std::function<void(const Experiment&)>& check) {
  try {
    check(experiment);
  } catch (const PluginRefusal& refusal) {
    // An alternative may crash: then the refusal stands.
    const CrashWords words(fmt::format("error: {}\n", refusal.what()), kExitUsage);
    ErrorText text = refusal.text();
    const std::string others = alternatives(experiment, registry, check);
    if (!others.empty()) text.hint += "; it could run with " + others;
    throw PluginRefusal(std::move(text));
  }
}

}  // namespace ddprun
