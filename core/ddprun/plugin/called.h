// Calls of plugins whose failures name them: what a plugin throws says neither which one nor where.
#pragma once

#include <functional>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Throws what is being handled again, with the plugin and the call in it. ConfigError, CommError
/// and the end of memory pass as they are: they are not the plugin's fault, or say what is. So does
/// everything from a plugin without a name (Plugin::called).
[[noreturn]] void name_failure(const Plugin& plugin, const char* call);

/// Returns run(), in which `call` of the plugin is made: "finish_backward()".
template <class Run>
decltype(auto) called(const Plugin& plugin, const char* call, const Run& run) {
  try {
    return run();
  } catch (...) {
    name_failure(plugin, call);
  }
}

/// attention.forward(). A failure of the backward that it leaves behind is named by
/// called_backward(), within which all of backward runs.
at::Tensor called_forward(Attention& attention, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionOptions& options);
void called_backward(Attention& attention, const std::function<void()>& backward);

}  // namespace ddprun
