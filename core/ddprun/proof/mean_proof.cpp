// Real gradients of a drawn step, kept and averaged once more.
#include "ddprun/proof/mean_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/proof/drawn_run.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/proof_integers.h"
#include "ddprun/proof/strategy_state.h"

namespace ddprun {

namespace {

constexpr const char* kAveraged = "gradients_averaged";
/// Of a lossy strategy, relative to the largest of what a run's sums are made of: what it sends and
/// keeps back are products and differences of these.
constexpr double kLossyTolerance = 1e-4;

}  // namespace

MeanProof::MeanProof(DataParallel& data_parallel, std::uint64_t draw)
    : data_parallel_(data_parallel), runs_(drawn_runs(data_parallel.buffers(), draw)) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const auto options = buffers.parameter(0).options().dtype(at::kFloat).requires_grad(false);
  for (const Range& run : runs_) {
    own_.push_back(at::zeros({run.size()}, options));
    own_sizes_.push_back(at::zeros_like(own_.back()));
  }
  feedback_before_ = all_of(data_parallel.context().carried().error_feedback);
  data_parallel.watch_gradients([this](int index) {
    const at::Tensor gradient = data_parallel_.buffers().gradients(runs_[index]).to(at::kFloat);
    own_[index].add_(gradient);
    own_sizes_[index].add_(gradient.abs());
    if (index == 0) ++exchanges_;
  });
}

MeanProof::~MeanProof() { data_parallel_.watch_gradients({}); }

at::Tensor MeanProof::all_of(const at::Tensor& flat) const {
  if (!flat.defined()) return {};
  const auto part = [&](const Range& run) { return flat.narrow(0, run.begin, run.size()); };
  return at::cat(mapped(runs_, part)).to(at::kFloat);
}

void MeanProof::keep_means() {
  const FlatBuffers& buffers = data_parallel_.buffers();
  std::vector<at::Tensor> means, owned;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    means.push_back(at::zeros_like(own_[i]));
    owned.push_back(at::zeros_like(own_[i], at::kBool));
    for (const Range& part : buffers.owned(runs_[i])) {
      const std::int64_t begin = part.begin - runs_[i].begin;
      means.back().narrow(0, begin, part.size()).copy_(buffers.mean(part));
      owned.back().narrow(0, begin, part.size()).fill_(true);
    }
  }
  means_ = at::cat(means);
  owned_ = at::cat(owned);
  feedback_ = all_of(data_parallel_.context().carried().error_feedback);
}

double MeanProof::rounding() const {
  const FlatBuffers& buffers = data_parallel_.buffers();
  return std::max(largest_rounding(buffers.dtypes().reduce),
                  largest_rounding(buffers.mean_dtype()));
}

std::string MeanProof::compare(ProcessGroup& group) const {
  at::Tensor expected = at::cat(own_);
  at::Tensor sizes = at::cat(own_sizes_);
  at::Tensor got = means_;
  if (averages()) {
    const at::Tensor both = mean_of_ranks(at::stack({expected, sizes}), group, kAveraged);
    expected = both[0];
    sizes = both[1];
  }
  if (feedback_.defined()) {
    got = got + mean_of_ranks(feedback_ - feedback_before_, group, kAveraged);
  }
  // Each rank's gradient, each partial sum and the mean are rounded, and so are sums over the
  // micro-batches that travel; the least is a denormal.
  const double roundings = (2.0 * group.size() + 2.0 * exchanges_ + 2) * rounding();
  const at::Tensor bound = (sizes + std::numeric_limits<float>::min() * 2) * roundings;
  const at::Tensor off = (got - expected).abs();
  at::Tensor parts;  // of the sum, where there is error feedback
  if (feedback_.defined()) parts = at::stack({means_, feedback_, feedback_before_}).abs().amax(0);
  // Gradients that overflowed are equal to nothing.
  const at::Tensor counted = owned_.logical_and(expected.isfinite());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const auto of_run = [&](const at::Tensor& all) {
      return all.narrow(0, begin, runs_[i].size());
    };
    at::Tensor allowed = of_run(bound);
    if (feedback_.defined()) allowed = allowed + of_run(parts).max() * kLossyTolerance;
    const at::Tensor wrong = of_run(off).le(allowed).logical_not().logical_and(of_run(counted));
    begin += runs_[i].size();
    const auto count = wrong.count_nonzero().item<std::int64_t>();
    if (count == 0) continue;
    return fmt::format("{} of {} drawn gradients of {} are not {}", with_thousands(count),
                       with_thousands(runs_[i].size()),
                       data_parallel_.buffers().name(static_cast<int>(i)), promised());
  }
  return {};
}

bool MeanProof::averages() const {
  const Agreement agreement = data_parallel_.context().plan().agreement;
  return agreement == Agreement::exact || agreement == Agreement::lossy;
}

std::string MeanProof::promised() const {
  if (!averages()) return "what backward made on this rank";
  return feedback_.defined() ? "with the error feedback the mean of the ranks' own"
                             : "the mean of the ranks' own";
}

Check MeanProof::finish(ProcessGroup& group) {
  const Agreement agreement = data_parallel_.context().plan().agreement;
  if (agreement == Agreement::lossy && !feedback_.defined()) {
    return {kAveraged, CheckStatus::declared, "what is not sent of the gradients is lost"};
  }
  std::string own = compare(group);
  const at::Tensor feedback = all_of(data_parallel_.context().carried().error_feedback);
  if (own.empty() && feedback.defined() && count_unequal(feedback, feedback_) > 0) {
    own = "update() changed the error feedback, which the next step is to send";
  }
  return check_of_all(
      group, kAveraged, own,
      fmt::format("{} drawn gradients are {}", with_thousands(means_.numel()), promised()));
}

}  // namespace ddprun
