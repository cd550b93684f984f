// Names of plugins in the exceptions that they let out.
#include "ddprun/plugin/called.h"

#include <ATen/core/Tensor.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/text.h"

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

namespace {

/// What would be said of another shape further on names neither the plugin nor its call.
void check_output(const Attention& attention, const at::Tensor& q, const at::Tensor& v,
                  const at::Tensor& out) {
  const auto leading = [](const at::Tensor& each) {
    return each.sizes().slice(0, each.sizes().size() - 1);
  };
  if (out.defined() && out.dim() == q.dim() && leading(out) == leading(q) &&
      out.size(-1) == v.size(-1)) {
    return;
  }
  std::vector<std::int64_t> sizes = leading(q).vec();
  sizes.push_back(v.size(-1));
  throw Error({.what = "an attention returned a tensor of another shape",
               .where = (attention.called.empty() ? "attention" : attention.called) + ", forward()",
               .got = out.defined() ? shape_text(out.sizes()) : "no tensor",
               .expected = shape_text(sizes) + ": batch, heads, time, head_dim",
               .hint = "q, k and v come in that order, and so does the output"});
}

}  // namespace

/// Autograd calls what forward left behind, when nobody names the plugin any more. So hooks at its
/// inputs and its output tell when backward is within.
at::Tensor called_forward(Attention& attention, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionOptions& options) {
  at::Tensor out =
      called(attention, "forward()", [&] { return attention.forward(q, k, v, options); });
  check_output(attention, q, v, out);
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
