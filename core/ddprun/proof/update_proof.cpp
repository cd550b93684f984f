// Repeats an update from what was kept before it.
#include "ddprun/proof/update_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <numeric>

#include "ddprun/base/choice.h"
#include "ddprun/base/counter_hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/proof/drawn_run.h"
#include "ddprun/proof/exact_update.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/proof_integers.h"

namespace ddprun {

namespace {

/// The formula is that of all elements of a parameter, so one of so many is looked at: of each lane
/// of a vector.
constexpr std::int64_t kFormulaEach = 7;
constexpr double kNormTolerance = 1e-5;

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  return mapped(tensors, [](const at::Tensor& tensor) { return tensor.clone(); });
}

/// `own` of each rank, a row each, in double.
at::Tensor rows_of_all(const at::Tensor& own, ProcessGroup& group) {
  const at::Tensor all = own.new_empty({group.size(), own.numel()});
  group.all_gather(all.flatten(), own, "rows").wait();
  return all.to(at::kDouble);
}

/// (ranks, ranks): how much each rank has of what each made, if they averaged in this step.
at::Tensor mixing_matrix(const BufferContext& context, ProcessGroup& group) {
  if (context.plan().agreement != Agreement::periodic) return {};
  const at::Tensor own = at::tensor(context.mixing_weights(), at::kDouble);
  const at::Tensor matrix = rows_of_all(own.to(group.device().torch_device()), group);
  // One that is alone has what it made, and averaging may have rounded it.
  if (group.size() == 1 && context.meeting() != Meeting::none) return matrix;
  return at::equal(matrix, at::eye(group.size(), matrix.options())) ? at::Tensor() : matrix;
}

/// What is wrong with the mixing matrix W (ranks, ranks), in words; empty: it keeps the mean.
std::string loses_the_mean(const at::Tensor& matrix) {
  const auto find_off = [&](int dim, std::string_view words) {
    const at::Tensor sums = matrix.sum(dim);
    const auto worst = (sums - 1).abs().argmax().item<std::int64_t>();
    const double sum = sums[worst].item<double>();
    return std::abs(sum - 1) <= 1e-6 ? std::string() : fmt::format(fmt::runtime(words), worst, sum);
  };
  const std::string row = find_off(1, "the weights by which rank {} mixes sum to {:.6g}, not 1");
  if (!row.empty()) return row;
  return find_off(0, "all ranks' weights of what rank {} made sum to {:.6g}, not 1");
}

/// What the optimizer makes an update from, in words.
const char* gradients_of(const BufferContext& context) {
  const Agreement agreement = context.plan().agreement;
  const bool own = agreement == Agreement::periodic || agreement == Agreement::none;
  return own ? "the rank's own gradients" : "the mean gradients";
}

/// Whose word it is that the ranks met, or did not.
const char* by_whose_word(const BufferContext& context) {
  const bool periodic = context.plan().agreement == Agreement::periodic;
  return periodic ? ", as ranks_met() or ranks_mixed() says of this step" : "";
}

void put(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& where) {
  for (std::size_t i = 0; i < where.size(); ++i) where[i].copy_(values[i]);
}

/// Of what an update writes, Optimizer::written_by_update(): the parameters, then each moment, its
/// parts one after another; in float64 on the CPU.
std::vector<at::Tensor> in_float64(const std::vector<at::Tensor>& written, bool copy, int moments) {
  const auto wide = [](const at::Tensor& each) { return each.cpu().to(at::kDouble).contiguous(); };
  std::vector<at::Tensor> all = {wide(written.front())};
  for (int moment = 0; moment < moments; ++moment) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = (copy ? 2 : 1) + moment; i < written.size(); i += moments) {
      parts.push_back(written[i]);
    }
    all.push_back(wide(at::cat(parts)));
  }
  return all;
}

UpdatedElement element_of(const std::vector<at::Tensor>& all, std::int64_t i) {
  UpdatedElement one = {.parameter = all.front().const_data_ptr<double>()[i]};
  for (std::size_t k = 1; k < all.size(); ++k) {
    one.moments.at(k - 1) = all[k].const_data_ptr<double>()[i];
  }
  return one;
}

}  // namespace

UpdateProof::UpdateProof(DataParallel& data_parallel, const OptimizerConfig& optimizer,
                         std::uint64_t draw)
    : data_parallel_(data_parallel),
      optimizer_(optimizer),
      settings_(group_settings(data_parallel.buffers().names(), optimizer)),
      clips_(optimizer.clip_norm > 0) {
  const FlatBuffers& buffers = data_parallel.buffers();
  std::uint64_t number = 0;
  for (int index = 0; index < buffers.count(); ++index) {
    for (const Range& part : buffers.owned(buffers.range(index))) {
      const Range range = drawn_run(part, counter_hash(draw, number++));
      drawn_.push_back(
          {index, range, copies_of(data_parallel.optimizer().written_by_update(range))});
    }
  }
}

void UpdateProof::keep_gradients() {
  const FlatBuffers& buffers = data_parallel_.buffers();
  for (Drawn& drawn : drawn_) drawn.gradients = buffers.mean(drawn.range).clone();
  if (!clips_) return;
  constexpr std::int64_t kAtATime = 1 << 20;  // the norm makes a copy in float64
  for (const Range& own : buffers.owned()) {
    for (std::int64_t begin = own.begin; begin < own.end; begin += kAtATime) {
      const Range piece = {begin, std::min(own.end, begin + kAtATime)};
      squares_ += aten_norm(buffers.mean(piece)).square().item<double>();
    }
  }
}

double UpdateProof::gradient_norm(ProcessGroup& group) const {
  const BufferHolding& holding = data_parallel_.buffers().holding();
  if (data_parallel_.buffers().owns_all()) return std::sqrt(squares_);
  const std::vector<double> all = all_gather_values(group, squares_);
  const auto end = holding.shards == 0 ? all.end() : all.begin() + holding.shards;
  return std::sqrt(std::accumulate(all.begin(), end, 0.0));
}

std::int64_t UpdateProof::count_off_formula(const Drawn& drawn,
                                            const std::vector<at::Tensor>& made) const {
  Optimizer& optimizer = data_parallel_.optimizer();
  const GradientScale& scale = optimizer.gradient_scale();
  if (scale.overflow.defined() && scale.overflow.item<float>() > 0) return 0;  // skipped
  const UpdateRule rule = {
      .config = optimizer_,
      .settings = settings_[drawn.index],
      .lr = optimizer.lr(),
      .gradient_scale = scale.factor.defined() ? scale.factor.item<double>() : 1,
      .updates = optimizer.updates()};
  const BufferDtypes& dtypes = data_parallel_.buffers().dtypes();
  const UpdateRounding rounding = {largest_rounding(dtypes.parameters),
                                   largest_rounding(dtypes.moments)};
  const bool copy = data_parallel_.buffers().compute_copy(drawn.range).defined();
  const int moments = static_cast<int>(std::ssize(optimizer.moment_names()));
  const std::size_t without_moments = copy ? 2 : 1;
  if (moments > 0 && made.size() == without_moments) return 0;  // the step updated nothing of it
  const auto before = in_float64(drawn.before, copy, moments);
  const auto after = in_float64(made, copy, moments);
  const at::Tensor gradients = drawn.gradients.cpu().to(at::kDouble);
  std::int64_t off = 0;
  for (std::int64_t i = 0; i < drawn.range.size(); i += kFormulaEach) {
    const double gradient = gradients.const_data_ptr<double>()[i];
    if (!follows(rule, element_of(before, i), gradient, element_of(after, i), rounding)) ++off;
  }
  return off;
}

std::vector<at::Tensor> UpdateProof::repeat(Drawn& drawn) {
  Optimizer& optimizer = data_parallel_.optimizer();
  const std::vector<at::Tensor> written = optimizer.written_by_update(drawn.range);
  const std::vector<at::Tensor> now = copies_of(written);
  const at::Tensor gradients = data_parallel_.buffers().mean(drawn.range);
  const at::Tensor gradients_now = gradients.clone();
  std::vector<at::Tensor>& before = drawn.before;
  while (before.size() < written.size()) before.push_back(at::zeros_like(written[before.size()]));
  put(before, written);
  gradients.copy_(drawn.gradients);
  optimizer.update_again(drawn.range);
  std::vector<at::Tensor> made = copies_of(written);
  put(now, written);
  gradients.copy_(gradients_now);
  return made;
}

std::string UpdateProof::compare(Drawn& drawn, const at::Tensor& weights, ProcessGroup& group) {
  const BufferContext& context = data_parallel_.context();
  std::vector<at::Tensor> made = repeat(drawn);
  if (const std::int64_t off = count_off_formula(drawn, made); off > 0 && off_formula_.empty()) {
    const std::int64_t looked_at = (drawn.range.size() + kFormulaEach - 1) / kFormulaEach;
    off_formula_ =
        fmt::format("{} of {} elements of {} are not what the formula of {} gives",
                    with_thousands(off), with_thousands(looked_at),
                    data_parallel_.buffers().name(drawn.index), name_of(optimizer_.name));
  }
  const bool mixed = weights.defined();
  if (mixed) {
    made[0] = at::matmul(weights, rows_of_all(made[0], group)).to(made[0].scalar_type());
  }
  const bool exact = data_parallel_.optimizer().rounds_the_same_everywhere();
  const std::vector<at::Tensor> got = data_parallel_.optimizer().written_by_update(drawn.range);
  const bool copy = data_parallel_.buffers().compute_copy(drawn.range).defined();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i == 1 && copy) continue;  // compute_copy is a check of its own
    if (i == 0 && context.meeting() == Meeting::outer) continue;
    const bool rounded = !exact || (i == 0 && mixed);
    const double tolerance = rounded ? 4 * largest_rounding(made[i].scalar_type()) : 0;
    const std::int64_t other = count_unequal(got[i], made[i], tolerance);
    if (other == 0) continue;
    return fmt::format("{} of {} {} of {} are not {}what the optimizer makes of {}{}",
                       with_thousands(other), with_thousands(got[i].numel()),
                       i == 0 ? "elements" : "moments", data_parallel_.buffers().name(drawn.index),
                       i == 0 && mixed ? "the ranks' mean of " : "", gradients_of(context),
                       i == 0 ? by_whose_word(context) : "");
  }
  return {};
}

Check UpdateProof::finish_formula(ProcessGroup& group, double norm, double scaled_back) const {
  std::string own = off_formula_;
  if (const double right = clips_ ? gradient_norm(group) * scaled_back : norm;
      std::isfinite(right) && !(std::abs(norm - right) <= kNormTolerance * right)) {
    own =
        fmt::format("the step clipped by a gradient norm of {:.6g}, and it is {:.6g}", norm, right);
  }
  return check_of_all(
      group, "optimizer_computed", own,
      fmt::format("updates are what the formula of {} gives in float64", name_of(optimizer_.name)));
}

Check UpdateProof::finish(ProcessGroup& group) {
  const at::Tensor matrix = mixing_matrix(data_parallel_.context(), group);
  std::string own = matrix.defined() ? loses_the_mean(matrix) : std::string();
  const at::Tensor weights = matrix.defined() ? matrix[group.rank()] : at::Tensor();
  std::int64_t elements = 0;
  for (Drawn& drawn : drawn_) {
    const std::string wrong = compare(drawn, weights, group);  // all ranks compare all
    if (own.empty()) own = wrong;
    elements += drawn.range.size();
  }
  return check_of_all(
      group, "parameters_updated", own,
      fmt::format("{} drawn elements and their moments are what the optimizer makes of {}",
                  with_thousands(elements), gradients_of(data_parallel_.context())));
}

}  // namespace ddprun
