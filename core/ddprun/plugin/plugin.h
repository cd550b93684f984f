// What all plugins have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

class Options;
struct RunDescription;

/// Why a plugin cannot run as it is asked to.
struct Refusal {
  std::string reason;     ///< a sentence: "it runs on the CPU alone"
  std::string expected;   ///< what it can run with: "world.device cpu"
  std::string hint = {};  ///< what to do; empty: take another plugin
};

enum class PluginKind : std::uint32_t { strategy = 1, precision = 2, attention = 3 };

/// Base of Strategy, Precision and Attention. Its library exports it (export.h).
class Plugin {
 public:
  virtual ~Plugin();

  /// Declares the plugin's YAML options (options.h). Called after construction, before
  /// everything else, in the launching process and again in every rank.
  virtual void declare_options(Options& options);

  /// Returns why the plugin, with its options as read, cannot take part in this run, or nothing.
  /// Called in the launching process, so that an impossible combination is refused before any rank
  /// starts.
  virtual std::optional<Refusal> unsupported(const RunDescription& run) const;
};

}  // namespace ddprun
