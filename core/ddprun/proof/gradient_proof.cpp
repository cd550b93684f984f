// One batch, two backwards.
#include "ddprun/proof/gradient_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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

double mean_square(const at::Tensor& values) { return values.square().mean().item<double>(); }

/// What is wrong with a loss; empty: nothing. A loss below 1 is a difference of numbers of that
/// size, so it may be off by as much as one of 1.
std::string wrong_loss(const char* which, double got, double expected, const std::string& format) {
  const double bound = (format == "float32" ? 2e-5 : 0.03) * std::max(1.0, std::abs(expected));
  if (std::abs(got - expected) <= bound || !std::isfinite(expected)) return {};
  return fmt::format("the loss{} is {:.6g}, and {:.6g} by PyTorch's operators; {:.2g} is allowed",
                     which, got, expected, bound);
}

double evaluate(DataParallel& data_parallel, const std::function<at::Tensor()>& loss) {
  return data_parallel.evaluate(loss).item<double>();
}

/// The size of the difference as a share of that of `expected`; of what overflowed there is none.
/// Where terms cancel a gradient is what rounding leaves of them, so a run counts as a tenth of the
/// mean one at least. `mean`: the mean square of all runs.
double difference(const at::Tensor& got, const at::Tensor& expected, double mean) {
  if (!expected.isfinite().all().item<bool>()) return 0;
  const double off = mean_square(got - expected);
  return off == 0 ? 0 : std::sqrt(off / std::max(mean_square(expected), mean / 100));
}

/// By how much two right computations differ. `format`: PrecisionDtypes::product_format(). `kept`:
/// the dtype of the gradients, of which each may be rounded to the next value. A loss of next to
/// nothing allows more: a probability of almost 1, less 1, is what rounding leaves.
double difference_bound(const std::string& format, at::ScalarType kept, double loss) {
  return (format == "float32" ? 1e-3 : 0.25) + 2 * largest_rounding(kept) +
         0x1p-20 / std::abs(loss);
}

}  // namespace

Check check_gradients_computed(DataParallel& data_parallel, ProcessGroup& group,
                               const TwoLosses& losses, std::uint64_t draw) {
  const FlatBuffers& buffers = data_parallel.buffers();
  StrategyState state(data_parallel.context().carried());
  const std::vector<Range> runs = drawn_runs(buffers, draw);
  const OneBackward made = compute(data_parallel, runs, losses.own, /*alone=*/false);
  const OneBackward expected = compute(data_parallel, runs, losses.reference, /*alone=*/true);
  state.put_back();
  const PrecisionDtypes dtypes = data_parallel.precision().dtypes();
  const std::string format = dtypes.product_format();
  const double bound = difference_bound(format, dtypes.buffers.reduce, expected.loss);
  const at::Tensor all = at::cat(expected.gradients);
  const double mean = mean_square(all);
  double largest = 0;
  std::string own;
  for (std::size_t i = 0; i < runs.size() && own.empty(); ++i) {
    const double off = difference(made.gradients[i], expected.gradients[i], mean);
    if (off == 0 || off <= bound) {  // the bound of a loss that is NaN is NaN
      largest = std::max(largest, off);
      continue;
    }
    own = fmt::format(
        "{} drawn gradients of {} are off by {:.2g} of what PyTorch's operators make of them, "
        "{:.2g} is allowed",
        with_thousands(runs[i].size()), buffers.name(static_cast<int>(i)), off, bound);
  }
  if (own.empty()) own = wrong_loss("", made.loss, expected.loss, format);
  const double evaluated = evaluate(data_parallel, losses.own);
  if (own.empty()) own = wrong_loss(" without gradients", evaluated, expected.loss, format);
  return check_of_all(group, "gradients_computed", own,
                      fmt::format("{} drawn gradients as PyTorch's operators make them, to {:.2g}",
                                  with_thousands(all.numel()), largest));
}

Check check_loss_computed(DataParallel& data_parallel, ProcessGroup& group,
                          const TwoLosses& losses) {
  const double made = evaluate(data_parallel, losses.own);
  const double expected = evaluate(data_parallel, losses.reference);
  return check_of_all(
      group, "loss_computed",
      wrong_loss("", made, expected, data_parallel.precision().dtypes().product_format()),
      fmt::format("{:.6g}, and {:.6g} by PyTorch's operators", made, expected));
}

}  // namespace ddprun
