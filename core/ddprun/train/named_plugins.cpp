// One class a kind of plugin, which passes calls on and looks at what they throw.
#include "ddprun/train/named_plugins.h"

#include <fmt/format.h>

#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"

namespace ddprun {

namespace {

/// `plugin`: "strategy \"flat\"". `got`: the words of the exception.
Error plugin_threw(const std::string& plugin, const char* call, const std::string& got) {
  return Error({.what = fmt::format("{} threw an exception in {}()", plugin, call),
                .where = {},
                .got = got,
                .expected = "a call that succeeds, or throws ddprun::Error",
                .hint = "the words are the plugin's, or of what it calls"});
}

template <typename Base>
class Named : public Base {
 public:
  Named(std::shared_ptr<Base> inner, std::string plugin)
      : inner_(std::move(inner)), plugin_(std::move(plugin)) {}

  void declare_options(Options& options) override { inner_->declare_options(options); }
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return in("unsupported", [&] { return inner_->unsupported(run); });
  }

 protected:
  template <typename Call>
  auto in(const char* call, const Call& body) const {
    try {
      return body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& failure) {
      if (says_out_of_memory(failure)) throw;
      throw plugin_threw(plugin_, call, first_line_of(failure));
    } catch (...) {
      throw plugin_threw(plugin_, call, "an exception that is no std::exception");
    }
  }
  Base& inner() const { return *inner_; }

 private:
  std::shared_ptr<Base> inner_;
  std::string plugin_;
};

class NamedStrategy final : public Named<Strategy> {
 public:
  using Named::Named;
  void setup(StrategyContext& context) override {
    in("setup", [&] { inner().setup(context); });
  }
  void on_gradient(int index) override {
    in("on_gradient", [&] { inner().on_gradient(index); });
  }
  void finish_backward() override {
    in("finish_backward", [&] { inner().finish_backward(); });
  }
  void optimizer_step(Optimizer& optimizer) override {
    in("optimizer_step", [&] { inner().optimizer_step(optimizer); });
  }
  bool reports_ranges() const override { return inner().reports_ranges(); }
};

class NamedPrecision final : public Named<Precision> {
 public:
  using Named::Named;
  void convert(const std::vector<NamedTensor>& parameters) override {
    in("convert", [&] { inner().convert(parameters); });
  }
  at::ScalarType compute_dtype() const override { return inner().compute_dtype(); }
  at::ScalarType reduce_dtype() const override { return inner().reduce_dtype(); }
  at::ScalarType parameter_dtype() const override { return inner().parameter_dtype(); }
  std::unique_ptr<Guard> forward_guard() override {
    return in("forward_guard", [&] { return inner().forward_guard(); });
  }
  Linear linear() override { return inner().linear(); }
  bool scales_loss() const override { return inner().scales_loss(); }
  at::Tensor scale_loss(const at::Tensor& loss) override {
    return in("scale_loss", [&] { return inner().scale_loss(loss); });
  }
  GradientScale gradient_scale(const at::Tensor& gradients) override {
    return in("gradient_scale", [&] { return inner().gradient_scale(gradients); });
  }
  std::string matmul_dtype() const override { return inner().matmul_dtype(); }
};

class NamedAttention final : public Named<Attention> {
 public:
  using Named::Named;
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    return in("forward", [&] { return inner().forward(q, k, v, options); });
  }
};

}  // namespace

std::shared_ptr<Strategy> named(std::shared_ptr<Strategy> inner, const std::string& name) {
  return std::make_shared<NamedStrategy>(std::move(inner), "strategy \"" + name + "\"");
}
std::shared_ptr<Precision> named(std::shared_ptr<Precision> inner, const std::string& name) {
  return std::make_shared<NamedPrecision>(std::move(inner), "precision \"" + name + "\"");
}
std::shared_ptr<Attention> named(std::shared_ptr<Attention> inner, const std::string& name) {
  return std::make_shared<NamedAttention>(std::move(inner), "attention \"" + name + "\"");
}

}  // namespace ddprun
