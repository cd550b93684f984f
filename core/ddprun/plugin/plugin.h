// What makes a shared library a ddprun plugin: the base class, and the one C symbol that is checked
// first.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ddprun/base/build_id.h"
#include "ddprun/base/error.h"
#include "ddprun/base/options.h"
#include "ddprun/comm/comm_config.h"
#include "ddprun/device/device_choice.h"
#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/optimizer_config.h"

namespace ddprun {

/// The run that a plugin is asked about, known before any rank starts; describe_run() makes it. All
/// sizes are of one rank.
struct RunDescription {
  int world_size = 1;
  DeviceKind device = DeviceKind::cpu;
  int compute_capability = 0;  ///< of the least of the host's GPUs, 90 is 9.0; on the CPU 0
  BackendKind backend = BackendKind::automatic;  ///< as configured
  /// cuda_graph: a step is captured once, and replayed.
  ExecutionMode execution = ExecutionMode::eager;
  std::int64_t micro_batch = 0;     ///< sequences in one forward
  std::int64_t accumulate = 1;      ///< micro-batches in one step
  std::int64_t context_length = 0;  ///< tokens in a sequence
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t d_ff = 0;
  c10::ScalarType compute_dtype = c10::kFloat;  ///< the precision's; it is asked before the others
  bool scales_loss = false;                     ///< the precision's
  KernelSet kernels = KernelSet::reference;
  bool tied_embeddings = false;        ///< a trained weight is used by the first unit and the last
  std::int64_t recomputed_blocks = 0;  ///< the most that backward computes again at once
  OptimizerConfig optimizer = {};      ///< as configured
};

/// Why a plugin cannot run as it is asked to.
struct Refusal {
  std::string reason;     ///< a sentence: "it runs on the CPU alone"
  std::string expected;   ///< what it can run with: "world.device cpu"
  std::string hint = {};  ///< what to do; empty: take another plugin
};

/// Base of Strategy, Precision and Attention. The library's own `create` makes the object and its
/// `destroy` deletes it.
class Plugin {
 public:
  virtual ~Plugin();

  /// Declares the plugin's YAML options (see options.h). Called after construction, before
  /// everything else, in the launching process and again in every rank.
  virtual void declare_options(Options& options);

  /// Returns why the plugin, with its options as read, cannot take part in this run, or nothing.
  /// Called in the launching process, so that an impossible combination is refused before any rank
  /// starts.
  virtual std::optional<Refusal> unsupported(const RunDescription& run) const;
};

enum class PluginKind : std::uint32_t { strategy = 1, precision = 2, attention = 3 };

/// Raised whenever a class of the SDK changes shape. Libraries built for another version are
/// refused.
inline constexpr std::uint32_t kPluginApiVersion = 9;

/// The C symbol `ddprun_plugin_v1`. It is plain data, so that it can be read from a library built
/// in any way. The fields are checked in this order, before any C++ object is used.
struct PluginDescriptor {
  std::uint32_t size;         ///< sizeof(PluginDescriptor)
  std::uint32_t api_version;  ///< kPluginApiVersion
  const char* build_id;       ///< DDPRUN_BUILD_ID of the library
  std::uint32_t kind;         ///< a PluginKind
  const char* name;           ///< the name in YAML: [a-z0-9_]+
  const char* summary;        ///< one line for `ddprun list`
  const char* version;        ///< the plugin's own version
  Plugin* (*create)();        ///< never returns null; may throw
  void (*destroy)(Plugin*);
};

}  // namespace ddprun

/// Exports `Class` as the plugin of this library. One per library.
#define DDPRUN_PLUGIN(Class, kind, name, summary, version)    \
  extern "C" __attribute__((visibility("default")))           \
  const ::ddprun::PluginDescriptor ddprun_plugin_v1;          \
  const ::ddprun::PluginDescriptor ddprun_plugin_v1 = {       \
      sizeof(::ddprun::PluginDescriptor),                     \
      ::ddprun::kPluginApiVersion,                            \
      DDPRUN_BUILD_ID,                                        \
      static_cast<std::uint32_t>(::ddprun::PluginKind::kind), \
      name,                                                   \
      summary,                                                \
      version,                                                \
      []() -> ::ddprun::Plugin* { return new Class(); },      \
      [](::ddprun::Plugin* plugin) { delete plugin; }};
