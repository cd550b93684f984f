// Real gradients of a drawn step, kept and averaged once more.
#include "ddprun/proof/mean_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/optim/flat_parts.h"
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
/// Of a lossy strategy without error feedback: fewer gradients than that say nothing of the others.
constexpr std::int64_t kEnoughSigns = 4096;

/// What is wrong with gradients `got` of which something is lost, in words; empty: nothing. They
/// need not be the mean, but go its way: of `got` (elements,) that are not zero, more have the sign
/// of `mean` (elements,) than chance gives, by four standard deviations.
std::string goes_elsewhere(const at::Tensor& got, const at::Tensor& mean) {
  const at::Tensor signs = got.sign() * mean.sign();
  const auto sent = signs.count_nonzero().item<std::int64_t>();
  const auto alike = signs.eq(1).sum().item<std::int64_t>();
  const double by_chance = static_cast<double>(sent) / 2;
  const double enough = by_chance + 2 * std::sqrt(static_cast<double>(sent));
  if (sent < kEnoughSigns || static_cast<double>(alike) >= enough) return {};
  return fmt::format("{} of {} drawn gradients have the sign of the mean; chance gives {:.0f}",
                     with_thousands(alike), with_thousands(sent), by_chance);
}

}  // namespace

MeanProof::MeanProof(DataParallel& data_parallel, std::uint64_t draw)
    : data_parallel_(data_parallel), runs_(drawn_runs(data_parallel.buffers(), draw)) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const auto options = buffers.parameter(0).options().dtype(at::kFloat).requires_grad(false);
  const bool looks = buffers.parameter(0).is_cpu();  // at what the model reads
  const at::Tensor parameters = looks ? this->parameters() : at::Tensor();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    own_.push_back(at::zeros({runs_[i].size()}, options));
    own_sizes_.push_back(at::zeros_like(own_.back()));
    if (!looks) continue;
    const at::Tensor values = parameters.narrow(0, begin, runs_[i].size());
    before_.push_back(mapped(buffers.read(static_cast<int>(i)), [&](const at::Tensor& read) {
      return values.to(read.scalar_type());
    }));
    begin += runs_[i].size();
  }
  feedback_before_ = all_of(data_parallel.context().carried().error_feedback);
  partial_.resize(runs_.size());
  data_parallel.watch_gradients([this](DataParallel::Watched what, int index) {
    if (what == DataParallel::Watched::begin) return look_at_partial();
    if (what == DataParallel::Watched::partial) return keep_partial(index);
    if (what == DataParallel::Watched::unit) {
      const Unit& unit = data_parallel_.buffers().units()[index];
      for (int each = unit.first; each <= unit.last; ++each) look_at_read(each, "forward");
      return;
    }
    const at::Tensor gradient = data_parallel_.buffers().gradients(runs_[index]).to(at::kFloat);
    own_[index].add_(gradient);
    own_sizes_[index].add_(gradient.abs());
    if (index == 0) ++exchanges_;
    look_at_read(index, "backward");
  });
}

at::Tensor MeanProof::own_part(const std::function<at::Tensor(Range)>& view) const {
  const FlatBuffers& buffers = data_parallel_.buffers();
  const auto options = buffers.parameter(0).options().dtype(at::kFloat).requires_grad(false);
  const auto of_run = [&](const Range& run) {
    const at::Tensor values = at::zeros({run.size()}, options);
    for (const Range& own : buffers.owned(run)) part_of(values, run, own).copy_(view(own));
    return values;
  };
  return at::cat(mapped(runs_, of_run));
}

at::Tensor MeanProof::parameters() const {
  const FlatBuffers& buffers = data_parallel_.buffers();
  const at::Tensor all = own_part([&](Range own) { return buffers.parameters(own); });
  if (buffers.owns_all()) return all;
  // The first ranks own all of it together. What the others add is zero, so the sum is exact.
  ProcessGroup& group = data_parallel_.context().process_group();
  const int shards = buffers.holding().shards;
  if (shards > 0 && group.rank() >= shards) all.zero_();
  group.all_reduce(all, ReduceOp::sum, kAveraged).wait();
  return all;
}

void MeanProof::keep_partial(int index) {
  const FlatBuffers& buffers = data_parallel_.buffers();
  const at::Tensor gradient = buffers.gradients(runs_[index]);
  // Where ranks exchange another dtype, what adds up is elsewhere.
  if (gradient.is_cpu() && buffers.dtypes().reduce == buffers.dtypes().model) {
    partial_[index] = gradient.clone();
  }
}

void MeanProof::look_at_partial() {
  const FlatBuffers& buffers = data_parallel_.buffers();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (!partial_[i].defined() || !changed_.empty()) continue;
    if (count_unequal(buffers.gradients(runs_[i]), partial_[i]) == 0) continue;
    changed_ = fmt::format("gradients of {} were changed between micro-batches",
                           buffers.name(static_cast<int>(i)));
  }
}

MeanProof::~MeanProof() { data_parallel_.watch_gradients({}); }

void MeanProof::look_at_read(int index, const char* pass) {
  const FlatBuffers& buffers = data_parallel_.buffers();
  if (!buffers.parameter(index).is_cpu() || !changed_.empty()) return;
  const std::vector<at::Tensor> read = buffers.read(index);
  for (std::size_t i = 0; i < read.size(); ++i) {
    const at::Tensor now = part_of(read[i], buffers.range(index), runs_[index]);
    if (count_unequal(now, before_[index][i]) == 0) continue;
    changed_ = fmt::format("{} reads other values of {} than the step began with", pass,
                           buffers.name(index));
  }
}

at::Tensor MeanProof::all_of(const at::Tensor& flat) const {
  if (!flat.defined()) return {};
  const auto part = [&](const Range& run) { return flat.narrow(0, run.begin, run.size()); };
  return at::cat(mapped(runs_, part)).to(at::kFloat);
}

void MeanProof::keep_means() {
  const FlatBuffers& buffers = data_parallel_.buffers();
  means_ = own_part([&](Range own) { return buffers.mean(own); });
  const auto here = means_.options();
  owned_ = own_part([&](Range own) { return at::ones({own.size()}, here); }).to(at::kBool);
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
  // Gradients that overflowed are equal to nothing.
  const at::Tensor counted = owned_.logical_and(expected.isfinite());
  if (loses_the_rest()) return goes_elsewhere(got.where(counted, at::zeros_like(got)), expected);
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

bool MeanProof::loses_the_rest() const {
  return data_parallel_.context().plan().agreement == Agreement::lossy && !feedback_.defined();
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
  std::string own = compare(group);
  if (own.empty()) own = changed_;
  const at::Tensor feedback = all_of(data_parallel_.context().carried().error_feedback);
  if (own.empty() && feedback.defined() && count_unequal(feedback, feedback_) > 0) {
    own = "update() changed the error feedback, which the next step is to send";
  }
  Check check = check_of_all(
      group, kAveraged, own,
      fmt::format("{} drawn gradients are {}", with_thousands(means_.numel()), promised()));
  if (!loses_the_rest() || check.status == CheckStatus::failed) return check;
  return {kAveraged, CheckStatus::declared,
          "gradients go the way of the mean, and what is not sent of them is lost"};
}

}  // namespace ddprun
