// Names of plugins in the exceptions that they let out.
#include "ddprun/plugin/called.h"

#include <ATen/core/Tensor.h>

#include <exception>
#include <string>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"

namespace ddprun {

void name_failure(const Plugin& plugin, const char* made) {
  if (plugin.called.empty()) throw;
  const std::string call = plugin.called + ", " + made;
  try {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    ErrorText text = error.text();
    text.where = call + (text.where.empty() ? "" : ": ") + text.where;
    throw Error(std::move(text));
  } catch (const std::exception& error) {
    if (says_out_of_memory(error)) throw;
    throw Error({.what = "a plugin failed: " + call,
                 .where = "this rank",
                 .got = message_of(error),
                 .expected = "no exception",
                 .hint = "these are the words of the plugin, or of LibTorch as the plugin called "
                         "it"});
  } catch (...) {
    throw Error({.what = "a plugin failed: " + call,
                 .where = "this rank",
                 .got = "an exception that is no std::exception",
                 .expected = "no exception",
                 .hint = "exceptions are derived from std::exception, so that they have words"});
  }
}

/// Autograd calls what forward left behind, when nobody names the plugin any more. So hooks at its
/// inputs and its output tell when backward is within.
at::Tensor called_forward(Attention& attention, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionOptions& options) {
  at::Tensor out =
      called(attention, "forward()", [&] { return attention.forward(q, k, v, options); });
  if (!out.requires_grad()) return out;
  int gradients = 0;
  for (const at::Tensor& input : {q, k, v}) {
    if (!input.requires_grad()) continue;
    ++gradients;
    input.register_hook([missing = attention.missing](const at::Tensor&) { --*missing; });
  }
  out.register_hook(
      [missing = attention.missing, gradients](const at::Tensor&) { *missing = gradients; });
  return out;
}

void called_backward(Attention& attention, const std::function<void()>& backward) {
  *attention.missing = 0;
  try {
    backward();
  } catch (...) {
    if (*attention.missing == 0) throw;
    name_failure(attention, "backward of forward()");
  }
}

}  // namespace ddprun
