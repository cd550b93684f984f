// Each call of a plugin, passed on, and its exceptions with the plugin's name.
#include "ddprun/parallel/named_plugins.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"

namespace ddprun {

namespace {

/// Throws what is being handled again, with the call ("strategy mine, finish_backward()") in it.
[[noreturn]] void name_failure(const std::string& call) {
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

/// A plugin of the interface `Base` and its name.
template <class Base>
class Named : public Base {
 public:
  Named(std::shared_ptr<Base> plugin, std::string name)
      : plugin_(std::move(plugin)), name_(std::move(name)) {}

  void declare_options(Options& options) override { plugin_->declare_options(options); }
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return plugin_->unsupported(run);
  }

 protected:
  template <class Call>
  decltype(auto) named(const char* call, const Call& run) const {
    try {
      return run();
    } catch (...) {
      name_failure(name_ + ", " + call);
    }
  }

  std::shared_ptr<Base> plugin_;
  std::string name_;  ///< "strategy mine"
};

class NamedStrategy final : public Named<Strategy> {
 public:
  using Named::Named;
  Plan plan(const ParameterLayout& layout, int rank) const override {
    return named("plan()", [&] { return plugin_->plan(layout, rank); });
  }
  void setup(StrategyContext& context) override {
    named("setup()", [&] { plugin_->setup(context); });
  }
  void before_forward() override {
    named("before_forward()", [&] { plugin_->before_forward(); });
  }
  void before_unit(Pass pass, int unit) override {
    named("before_unit()", [&] { plugin_->before_unit(pass, unit); });
  }
  void after_unit(Pass pass, int unit) override {
    named("after_unit()", [&] { plugin_->after_unit(pass, unit); });
  }
  void on_gradient(int index) override {
    named("on_gradient()", [&] { plugin_->on_gradient(index); });
  }
  void finish_backward() override {
    named("finish_backward()", [&] { plugin_->finish_backward(); });
  }
  void update() override {
    named("update()", [&] { plugin_->update(); });
  }
  std::vector<at::Tensor> state() override {
    return named("state()", [&] { return plugin_->state(); });
  }
  at::Tensor kept_back() const override { return plugin_->kept_back(); }
  bool ranks_agree() const override { return plugin_->ranks_agree(); }
  bool reports_ranges() const override { return plugin_->reports_ranges(); }
};

class NamedPrecision final : public Named<Precision> {
 public:
  using Named::Named;
  void convert(const std::vector<NamedTensor>& parameters) override {
    named("convert()", [&] { plugin_->convert(parameters); });
  }
  PrecisionDtypes dtypes() const override { return plugin_->dtypes(); }
  std::unique_ptr<Guard> forward_guard() override {
    return named("forward_guard()", [&] { return plugin_->forward_guard(); });
  }
  Linear linear() override {
    const Linear product = plugin_->linear();
    if (!product) return product;
    return [this, product](const at::Tensor& x, const at::Tensor& weight) {
      return named("linear()", [&] { return product(x, weight); });
    };
  }
  LossScaler* loss_scaler() override {
    scaler_.plugin = plugin_->loss_scaler();
    return scaler_.plugin == nullptr ? nullptr : &scaler_;
  }

 private:
  struct NamedScaler final : LossScaler {
    explicit NamedScaler(const NamedPrecision& owner) : owner(owner) {}
    at::Tensor scale(const at::Tensor& loss) override {
      return owner.named("LossScaler::scale()", [&] { return plugin->scale(loss); });
    }
    GradientScale gradient_scale(const std::vector<at::Tensor>& gradients) override {
      return owner.named("LossScaler::gradient_scale()",
                         [&] { return plugin->gradient_scale(gradients); });
    }
    const NamedPrecision& owner;
    LossScaler* plugin = nullptr;  ///< the plugin's own
  };

  NamedScaler scaler_{*this};
};

/// Autograd calls what forward left behind, when nobody names the plugin any more. So hooks at its
/// inputs and its output tell when backward is within.
class NamedAttention final : public Named<Attention> {
 public:
  using Named::Named;
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    at::Tensor out = named("forward()", [&] { return plugin_->forward(q, k, v, options); });
    watch_backward({q, k, v}, out);
    return out;
  }
  std::optional<AttentionMemory> memory(const AttentionSizes& sizes) const override {
    return plugin_->memory(sizes);
  }
  void backward(const std::function<void()>& run) {
    *missing_ = 0;
    try {
      run();
    } catch (...) {
      if (*missing_ == 0) throw;
      name_failure(name_ + ", backward of forward()");
    }
  }

 private:
  void watch_backward(const std::vector<at::Tensor>& inputs, const at::Tensor& out) {
    if (!out.requires_grad()) return;
    int gradients = 0;
    for (const at::Tensor& input : inputs) {
      if (!input.requires_grad()) continue;
      ++gradients;
      input.register_hook([missing = missing_](const at::Tensor&) { --*missing; });
    }
    out.register_hook([missing = missing_, gradients](const at::Tensor&) { *missing = gradients; });
  }

  /// Gradients of inputs that backward has begun to compute, and that are not there yet. On a GPU
  /// autograd has threads of its own.
  std::shared_ptr<std::atomic<int>> missing_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace

std::shared_ptr<Strategy> with_named_failures(std::shared_ptr<Strategy> strategy,
                                              const std::string& name) {
  return std::make_shared<NamedStrategy>(std::move(strategy), "strategy " + name);
}

std::shared_ptr<Precision> with_named_failures(std::shared_ptr<Precision> precision,
                                               const std::string& name) {
  return std::make_shared<NamedPrecision>(std::move(precision), "precision " + name);
}

std::shared_ptr<Attention> with_named_failures(std::shared_ptr<Attention> attention,
                                               const std::string& name) {
  return std::make_shared<NamedAttention>(std::move(attention), "attention " + name);
}

void backward_with_names(Attention& attention, const std::function<void()>& backward) {
  auto* const named = dynamic_cast<NamedAttention*>(&attention);
  named != nullptr ? named->backward(backward) : backward();
}

}  // namespace ddprun
