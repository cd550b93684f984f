// Defaults of the plugin interfaces: a plugin says only what differs.
#include "ddprun/plugin/plugin.h"

#include "ddprun/base/error.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

Plugin::~Plugin() = default;
void Plugin::declare_options(Options&) {}
std::optional<Refusal> Plugin::unsupported(const RunDescription&) const { return {}; }
void Plugin::declare_state(State&) {}

Strategy::~Strategy() = default;
Plan Strategy::plan(const ParameterLayout&, int) const { return {}; }
void Strategy::setup(StrategyContext& context) {
  if (context_ != nullptr) {
    throw Error({.what = "a strategy was given to a second DataParallel",
                 .where = "Strategy::setup()",
                 .got = "an object that knows the gradients of the first",
                 .expected = "an object for each DataParallel",
                 .hint = "make_strategy() for each of them"});
  }
  context_ = &context;
  context.broadcast_parameters();
}
void Strategy::on_gradient(int) {}
void Strategy::update() {
  if (context_ == nullptr) {
    throw Error({.what = "the strategy's setup() kept no context",
                 .where = "Strategy::update()",
                 .got = "an override of setup() that neither calls the default nor sets context_",
                 .expected = "context_ from setup() on",
                 .hint = "call Strategy::setup(context) first in the override"});
  }
  context_->update_rest();
}

std::optional<Refusal> refuse_captured_steps(const RunDescription& run, const std::string& reason) {
  if (run.execution == ExecutionMode::eager) return {};
  return Refusal{.reason = reason,
                 .expected = "execution.mode eager",
                 .hint = "set `mode: eager` under `execution:`"};
}

Precision::~Precision() = default;
Precision::Guard::~Guard() = default;
void Precision::convert(const std::vector<NamedTensor>&) {}
PrecisionDtypes Precision::dtypes() const { return {}; }
std::unique_ptr<Precision::Guard> Precision::forward_guard() { return nullptr; }
Precision::Linear Precision::linear() { return {}; }
LossScaler* Precision::loss_scaler() { return nullptr; }

LossScaler::~LossScaler() = default;

std::string PrecisionDtypes::product_format() const {
  if (!products.empty()) return products;
  const at::ScalarType dtype = buffers.compute;
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
}

std::optional<Refusal> below_capability(const RunDescription& run, int least,
                                        const std::string& what) {
  if (run.device == DeviceKind::cpu || run.compute_capability >= least) return {};
  const auto text = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  const std::string expected = "compute capability " + text(least) + " or more";
  return Refusal{.reason = what + " need a GPU of " + expected + ", and one here has " +
                           text(run.compute_capability),
                 .expected = expected};
}

std::optional<Refusal> needs_reference_kernels(const RunDescription& run,
                                               const std::string& reason) {
  if (run.kernels == KernelSet::reference) return {};
  return Refusal{.reason = reason,
                 .expected = "model.kernels reference",
                 .hint = "set `kernels: reference` under `model:`"};
}

Attention::~Attention() = default;

}  // namespace ddprun
