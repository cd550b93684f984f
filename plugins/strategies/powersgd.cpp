// Strategy "powersgd": gradients of matrices travel as two thin factors (Vogels et al., NeurIPS
// 2019, algorithms 1 and 2).
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/state.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// A matrix M (n, m) of gradients, and what was kept back before, is sent as P (n, r) = M Q,
/// averaged and made orthonormal, and Q (m, r) = M^T P, averaged: one step of the power method,
/// which begins at the Q of the step before. All ranks then have P Q^T, of rank r, and each keeps
/// back what its own M differs by. All factors P of a step travel in one all-reduce, all Q in a
/// second, and what is not worth compressing in a third.
class PowerSgd final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("rank", &rank_, "columns of the two factors", {.min = 1, .max = 1 << 16});
    options.option("error_feedback", &error_feedback_,
                   "add what a step kept back to the next step's gradients");
    options.option("warm_start", &warm_start_, "begin at the factors of the step before");
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (run.scales_loss) {
      return Refusal{.reason =
                         "what it keeps back would be of another scale than the next "
                         "gradients",
                     .expected = "a precision that does not scale the loss",
                     .hint = "take bf16_mixed or fp32"};
    }
    return refuse_captured_steps(
        run, "cuSOLVER, which makes its factors orthonormal, does not say that it can be captured");
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    const Sizes sizes = sizes_of(layout);
    Plan plan{.agreement = Agreement::lossy};
    for (const std::int64_t elements : {sizes.whole, sizes.p, sizes.q}) {
      if (elements > 0) plan.add(CollectiveKind::all_reduce, elements * kBytes);
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    const ParameterLayout& layout = context.layout();
    const Sizes sizes = sizes_of(layout);
    const auto options = context.parameters(layout.all()).options().dtype(at::kFloat);
    whole_ = at::empty({sizes.whole}, options);
    p_ = at::empty({sizes.p}, options);
    q_ = at::empty({sizes.q}, options);
    error_ = at::zeros({layout.all().size()}, options);
    Sizes begin;
    for (int index = 0; index < layout.count(); ++index) add(layout, index, begin);
    start();
    deviations(context).carries(
        {.tensors = {q_}, .error_feedback = error_feedback_ ? error_ : at::Tensor()});
  }

  void finish_backward() override {
    if (!warm_start_) start();
    for (const Whole& each : wholes_) each.sent.copy_(each.gradient);
    for (Matrix& each : matrices_) {
      each.error.add_(each.gradient);  // M
      at::mm_out(each.p, each.error, each.q);
    }
    Work whole = all_reduce(whole_, "whole");
    all_reduce(p_, "P").wait();
    for (Matrix& each : matrices_) {
      each.p.copy_(std::get<0>(at::linalg_qr(each.p)));
      at::mm_out(each.q, each.error.t(), each.p);
    }
    all_reduce(q_, "Q").wait();
    for (const Matrix& each : matrices_) {
      each.gradient.copy_(at::mm(each.p, each.q.t()));
      error_feedback_ ? each.error.sub_(each.gradient) : each.error.zero_();
    }
    whole.wait();
    for (const Whole& each : wholes_) each.gradient.copy_(each.sent);
  }

  void update() override {
    ++steps_;
    Strategy::update();
  }

  void declare_state(State& state) override {
    state.number("steps", steps_);
    state.tensor("q", q_);
    state.tensor("error", error_);
  }

 private:
  static constexpr std::int64_t kBytes = sizeof(float);

  /// Elements that travel: of the factors, and of what is sent as it is.
  struct Sizes {
    std::int64_t whole = 0, p = 0, q = 0;
  };
  /// A gradient that is sent as it is, and its place in whole_.
  struct Whole {
    at::Tensor gradient, sent;
  };
  /// (n, m), (n, m), (n, r), (m, r): views of the gradients, of error_, p_ and q_. Factors lie
  /// column by column: products that have few columns, row by row, take BLAS 3 to 16 times as long.
  struct Matrix {
    at::Tensor gradient, error, p, q;
  };

  /// The columns of the parameter's factors; 0: it is sent as it is.
  std::int64_t columns(const ParameterLayout& layout, int index) const {
    const auto& sizes = layout.sizes(index);
    if (sizes.size() != 2) return 0;
    const std::int64_t r = std::min({rank_, sizes[0], sizes[1]});
    return r * (sizes[0] + sizes[1]) < sizes[0] * sizes[1] ? r : 0;
  }

  Sizes sizes_of(const ParameterLayout& layout) const {
    Sizes sum;
    for (int index = 0; index < layout.count(); ++index) {
      const std::int64_t r = columns(layout, index);
      if (r == 0) {
        sum.whole += layout.range(index).size();
        continue;
      }
      sum.p += layout.sizes(index)[0] * r;
      sum.q += layout.sizes(index)[1] * r;
    }
    return sum;
  }

  void add(const ParameterLayout& layout, int index, Sizes& begin) {
    const auto next = [](const at::Tensor& from, std::int64_t& begin, std::int64_t size) {
      begin += size;
      return from.narrow(0, begin - size, size);
    };
    const Range range = layout.range(index);
    const at::Tensor gradient = context_->gradients(range);
    const std::int64_t r = columns(layout, index);
    if (r == 0) {
      wholes_.push_back({gradient, next(whole_, begin.whole, range.size())});
      return;
    }
    const std::int64_t n = layout.sizes(index)[0], m = layout.sizes(index)[1];
    // A transposed parameter lies column by column; read row by row it would be of no low rank.
    const at::IntArrayRef strides = deviations(*context_).parameter(index).strides();
    const at::Tensor error = error_.narrow(0, range.begin, range.size());
    matrices_.push_back({.gradient = gradient.as_strided({n, m}, strides),
                         .error = error.as_strided({n, m}, strides),
                         .p = next(p_, begin.p, n * r).view({r, n}).t(),
                         .q = next(q_, begin.q, m * r).view({r, m}).t()});
  }

  /// Random factors, the same on all ranks.
  void start() {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(steps_));
    // A GPU copies from page-locked memory while the host goes on.
    const auto options = at::TensorOptions().pinned_memory(q_.is_cuda());
    q_.copy_(at::randn({q_.numel()}, generator, options), /*non_blocking=*/true);
  }

  Work all_reduce(const at::Tensor& tensor, std::string_view label) {
    return tensor.numel() > 0 ? context_->group().all_reduce(tensor, ReduceOp::avg, label) : Work();
  }

  std::int64_t rank_ = 4;
  bool error_feedback_ = true;
  bool warm_start_ = true;
  std::int64_t steps_ = 0;
  at::Tensor whole_, p_, q_;  // what travels, float32
  at::Tensor error_;          // laid out as the gradients, float32; while a step sends: M
  std::vector<Whole> wholes_;
  std::vector<Matrix> matrices_;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::PowerSgd, "powersgd",
                "matrices of gradients travel as two thin factors: PowerSGD", "1.0")
