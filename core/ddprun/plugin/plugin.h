// What all plugins have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

class Options;
class State;
struct RunDescription;

struct Refusal {
  std::string reason;     ///< why it cannot run, a sentence: "it runs on the CPU alone"
  std::string expected;   ///< what it can run with: "world.device cpu"
  std::string hint = {};  ///< what to do; empty: take another plugin
};

/// For unsupported(): a refusal for that reason if steps are captured.
std::optional<Refusal> refuse_captured_steps(const RunDescription& run, const std::string& reason);

enum class PluginKind : std::uint32_t { strategy = 1, precision = 2, attention = 3 };

/// Base of Strategy, Precision and Attention. Its library exports it (export.h).
class Plugin {
 public:
  virtual ~Plugin();
  std::string called, options_text;  ///< "strategy flat", "{bucket_mb: 25}"; by a registry

  /// Declares the YAML options (options.h). Called first, in the launching process and each rank.
  virtual void declare_options(Options& options);
  /// Returns why the plugin, with its options as read, cannot take part in this run, or nothing.
  /// Called in the launching process, so that what is impossible is refused before any rank starts.
  virtual std::optional<Refusal> unsupported(const RunDescription& run) const;
  /// Declares what it carries from step to step, which a checkpoint keeps (state.h).
  virtual void declare_state(State& state);
};

}  // namespace ddprun
