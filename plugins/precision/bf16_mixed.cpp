// bf16_mixed: matrix products in bfloat16, by the fused kernels or by PyTorch's autocast;
// parameters, gradients, norms and loss stay float32.
#include <ATen/autocast_mode.h>

#include "ddprun/plugin/precision.h"

namespace {

namespace autocast = at::autocast;

// What `torch.autocast("cpu", torch.bfloat16)` does on entry and on exit. The switch belongs to the
// thread, so ranks that are threads do not disturb each other; the cache of casts is the process's,
// keyed by weight and locked, so one rank emptying it costs another a second cast and no more.
class AutocastGuard final : public ddprun::Precision::Guard {
 public:
  AutocastGuard()
      : enabled_before_(autocast::is_autocast_enabled(at::kCPU)),
        dtype_before_(autocast::get_autocast_dtype(at::kCPU)) {
    autocast::set_autocast_enabled(at::kCPU, true);
    autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    autocast::increment_nesting();
  }

  ~AutocastGuard() override {
    // Within the outermost guard each weight is cast once; the casts are stale after the
    // optimizer's step.
    if (autocast::decrement_nesting() == 0) autocast::clear_cache();
    autocast::set_autocast_enabled(at::kCPU, enabled_before_);
    autocast::set_autocast_dtype(at::kCPU, dtype_before_);
  }

 private:
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

class Bf16Mixed final : public ddprun::Precision {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("reduce_dtype", &reduce_dtype_, "dtype in which gradients travel between ranks",
                   {.one_of = {"float32", "bfloat16"}});
  }

  at::ScalarType compute_dtype() const override { return at::kBFloat16; }
  at::ScalarType reduce_dtype() const override {
    return reduce_dtype_ == "bfloat16" ? at::kBFloat16 : at::kFloat;
  }

  std::unique_ptr<Guard> forward_guard() override { return std::make_unique<AutocastGuard>(); }

  std::string unsupported(const ddprun::Setup& setup) const override {
    if (setup.device != "cpu")
      return "it switches on autocast of the CPU only, not of " + setup.device;
    return {};
  }

 private:
  std::string reduce_dtype_ = "float32";
};

}  // namespace

DDPRUN_PRECISION(Bf16Mixed, "bf16_mixed", "matrix products in bfloat16, the rest in float32", "1.0")
