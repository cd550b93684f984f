// One batch, three backwards.
#include "ddprun/proof/gradient_proof.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/proof/drawn_run.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/proof_integers.h"
#include "ddprun/proof/strategy_state.h"

namespace ddprun {

namespace {

/// What a backward makes of each run on this rank, before the strategy hears of it, in float32.
/// `alone`: it does not (DataParallel::watch_gradients()).
struct OneBackward {
  std::vector<at::Tensor> gradients;
  double loss = 0;
};

OneBackward compute(DataParallel& data_parallel, const std::vector<Range>& runs,
                    const std::function<at::Tensor()>& of_batch, bool alone) {
  OneBackward out{.gradients = std::vector<at::Tensor>(runs.size())};
  const auto keep = [&](DataParallel::Watched what, int index) {
    if (what != DataParallel::Watched::final) return;
    const at::Tensor run = data_parallel.buffers().gradients(runs[index]);
    out.gradients[index] = run.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  };
  data_parallel.watch_gradients(keep, alone);
  const Loss loss = data_parallel.forward(of_batch);
  data_parallel.backward(loss);
  data_parallel.watch_gradients({});
  data_parallel.drop_gradients();
  out.loss = loss.value().item<double>();
  return out;
}

/// By how much more than PyTorch's operators may the own ones round? Of 450 drawn models it was 2.2
/// times in one of ten, and 4.4 at most; of those that a learning rate of 0.1 had spoilt, once 15.
constexpr double kLargestExcess = 20;

/// What is wrong with a loss; empty: nothing. `plain`: by PyTorch's operators in the run's format,
/// which may overflow. A loss below 1 is a difference of numbers of that size, so it may be off by
/// as much as one of 1.
std::string wrong_loss(const char* which, double got, double plain, double expected,
                       const std::string& format) {
  const double usual = (format == "float32" ? 2e-5 : 0.03) * std::max(1.0, std::abs(expected));
  const double bound = std::max(kLargestExcess * std::abs(plain - expected), usual);
  if (std::abs(got - expected) <= bound || !std::isfinite(bound)) return {};
  return fmt::format(
      "the loss{} is {:.6g}, and {:.6g} by PyTorch's operators in float64; {:.2g} is allowed",
      which, got, expected, bound);
}

/// Root mean square.
double size_of(const at::Tensor& values) {
  return std::sqrt(values.square().mean().item<double>());
}

/// Of those that are finite.
double root_mean_square(const std::vector<double>& values) {
  double squares = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++count;
  }
  return std::sqrt(squares / std::max(1.0, count));
}

/// What rounding may always do to a gradient, as a share of it, where PyTorch's operators were
/// right by chance, as they can be if all tokens are alike: 16 roundings of the products' format;
/// one to the next value of the dtype in which gradients are kept; and the rounding of a
/// probability of almost 1, where 1 less that is the gradient.
double always_allowed(const std::string& format, at::ScalarType kept, double loss) {
  const double of_format = format == "float32" ? 0x1p-24 : format == "bfloat16" ? 0x1p-8 : 0x1p-11;
  return std::max({16 * of_format, 2 * largest_rounding(kept), 0x1p-20 / std::abs(loss)});
}

/// How far rounding takes the runs of a right backward, by what it does in PyTorch's operators.
class Rounding {
 public:
  /// `plain`: by PyTorch's operators in the run's own format. `always`: always_allowed().
  Rounding(const std::vector<at::Tensor>& exact, const std::vector<at::Tensor>& plain,
           double always)
      : exact_(exact), least_size_(root_mean_square(mapped(exact, size_of)) / 10) {
    for (std::size_t run = 0; run < exact.size(); ++run) of_plain_.push_back(off(run, plain[run]));
    usual_ = std::max(root_mean_square(of_plain_), always / kLargestExcess);
  }

  /// By how much of its size a run is off. Where terms cancel a gradient is what rounding leaves of
  /// them, so a run has a tenth of the size of all at least.
  double off(std::size_t run, const at::Tensor& computed) const {
    const double difference = size_of(computed - exact_[run]);
    return difference == 0 ? 0 : difference / std::max(size_of(exact_[run]), least_size_);
  }
  /// By what it is off for `computed`, in multiples of what is to be expected: the run's own share
  /// or the usual one, as few elements can be right by chance. 0 where the run overflowed.
  double excess(std::size_t run, const at::Tensor& computed) const {
    if (!std::isfinite(of_plain_[run])) return 0;
    return off(run, computed) / std::max(of_plain_[run], usual_);
  }
  /// The root mean square of the runs' shares, or a part of what is always allowed.
  double usual() const { return usual_; }

 private:
  const std::vector<at::Tensor>& exact_;
  double least_size_;
  std::vector<double> of_plain_;
  double usual_ = 0;
};

double evaluate(DataParallel& data_parallel, const std::function<at::Tensor()>& loss) {
  return data_parallel.evaluate(loss).item<double>();
}

}  // namespace

Check check_gradients_computed(DataParallel& data_parallel, ProcessGroup& group,
                               const LossesOfBatch& losses, std::uint64_t draw) {
  const FlatBuffers& buffers = data_parallel.buffers();
  StrategyState state(data_parallel.context().carried());
  const std::vector<Range> runs = drawn_runs(buffers, draw);
  const PrecisionDtypes dtypes = data_parallel.precision().dtypes();
  const std::string format = dtypes.product_format();
  const OneBackward made = compute(data_parallel, runs, losses.own, /*alone=*/false);
  const OneBackward plain = compute(data_parallel, runs, losses.plain, /*alone=*/true);
  const OneBackward exact = compute(data_parallel, runs, losses.exact, /*alone=*/true);
  state.put_back();
  const Rounding rounding(exact.gradients, plain.gradients,
                          always_allowed(format, dtypes.buffers.reduce, exact.loss));
  double largest = 0;
  std::string own;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < runs.size() && own.empty(); ++i) {
    count += runs[i].size();
    const double excess = rounding.excess(i, made.gradients[i]);
    if (excess <= kLargestExcess) {
      largest = std::max(largest, excess);
      continue;
    }
    own = fmt::format(
        "{} drawn gradients of {} are off by {:.2g} of those in float64, {:.2g} times as much as "
        "by PyTorch's operators in {}; {} times is allowed",
        with_thousands(runs[i].size()), buffers.name(static_cast<int>(i)),
        rounding.off(i, made.gradients[i]), excess, format, kLargestExcess);
  }
  if (own.empty()) own = wrong_loss("", made.loss, plain.loss, exact.loss, format);
  const double evaluated = evaluate(data_parallel, losses.own);
  if (own.empty()) {
    own = wrong_loss(" without gradients", evaluated, plain.loss, exact.loss, format);
  }
  return check_of_all(group, "gradients_computed", own,
                      fmt::format("{} drawn gradients, off from those in float64 by at most {:.2g} "
                                  "times what PyTorch's operators in {} are, {:.2g}",
                                  with_thousands(count), largest, format, rounding.usual()));
}

Check check_loss_computed(DataParallel& data_parallel, ProcessGroup& group,
                          const LossesOfBatch& losses) {
  const std::string format = data_parallel.precision().dtypes().product_format();
  const double made = evaluate(data_parallel, losses.own);
  const double plain = evaluate(data_parallel, losses.plain);
  const double exact = evaluate(data_parallel, losses.exact);
  return check_of_all(
      group, "loss_computed", wrong_loss("", made, plain, exact, format),
      fmt::format("{:.6g}, and {:.6g} by PyTorch's operators in float64", made, exact));
}

}  // namespace ddprun
