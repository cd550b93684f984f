// The check of gradients by integers.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/text.h"
#include "ddprun/base/torch_versions.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/proof/drawn_run.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/proof_integers.h"
#include "ddprun/proof/strategy_state.h"

namespace ddprun {

namespace {

/// Whose integers of which micro-batch.
struct IntegersOf {
  int rank = 0;
  int micro_batch = 0;
  std::uint64_t draw = 0;  ///< of the elements that are looked at
};

/// Backward of a term of the loss whose gradient with respect to one parameter is this rank's
/// integers. They are made when autograd asks for them, one parameter after another: the check of a
/// model must not take the memory of another one.
struct IntegersBackward final : torch::autograd::Node {
  IntegersBackward(const FlatBuffers& buffers, const ProofIntegers& integers, std::string& wrong)
      : buffers(buffers), integers(integers), wrong(wrong) {}

  const FlatBuffers& buffers;
  const ProofIntegers& integers;
  std::string& wrong;
  int index = 0;  // the parameter's
  IntegersOf of;
  at::Tensor read_in_forward = {};

  std::string name() const override { return "IntegersBackward"; }

  /// Some of what the model reads now, where it is not whole all the time.
  at::Tensor read_now() const {
    if (buffers.holding().parameters != Placement::sharded) return {};
    const Range all = buffers.range(index);
    const Range run = drawn_run(all, counter_hash(of.draw, static_cast<std::uint64_t>(index)));
    std::vector<at::Tensor> parts;
    for (const at::Tensor& read : buffers.read(index)) {
      parts.push_back(read.narrow(0, run.begin - all.begin, run.size()).to(at::kFloat));
    }
    return at::cat(parts);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    if (const at::Tensor now = read_now(); now.defined() && !at::equal(now, read_in_forward)) {
      wrong = "what the model reads of " + buffers.name(index) +
              " in backward is not what it read in forward";
    }
    at::Tensor values = buffers.empty_gradient(index);  // the parameter may be transposed
    const std::int64_t first_element = buffers.range(index).begin;
    float* const data = values.mutable_data_ptr<float>();
    at::parallel_for(0, values.numel(), ProofIntegers::kGrain,
                     [&](std::int64_t begin, std::int64_t end) {
                       integers.write({first_element + begin, first_element + end}, of.rank,
                                      of.micro_batch, data + begin);
                     });
    return {values.to(buffers.parameter(index).options())};
  }
};

/// A scalar whose gradients are the integers of `rank` in `micro_batch`. Autograd runs the nodes
/// made last first, so making the terms from the last parameter to the first lets gradients arrive
/// in buffer order, as in training.
at::Tensor loss_of_unit(const FlatBuffers& buffers, const Unit& unit, const ProofIntegers& integers,
                        IntegersOf of, std::string& wrong) {
  std::vector<at::Tensor> terms;
  for (int index = unit.last; index >= unit.first; --index) {
    const NodePointer<IntegersBackward> node = new_node<IntegersBackward>(buffers, integers, wrong);
    node->index = index;
    node->of = of;
    node->read_in_forward = node->read_now();
    node->set_next_edges(torch::autograd::collect_next_edges(buffers.parameter(index)));
    terms.push_back(at::zeros({}, buffers.parameter(index).options()));
    torch::autograd::set_history(terms.back(), node);
  }
  return at::stack(terms).sum();
}

/// A scalar whose gradients are these integers. It is computed unit by unit, as a model computes
/// its loss. Where ranks keep parts of the parameters, backward looks at some elements of each
/// parameter that a model would read then, and writes to `wrong` what it finds that forward did not
/// read. `integers` and `wrong` outlive its backward.
at::Tensor loss_with_integer_gradients(DataParallel& data_parallel, const ProofIntegers& integers,
                                       IntegersOf of, std::string& wrong) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const std::vector<int>& numbers = data_parallel.roles().units;
  at::Tensor loss;
  for (int unit = 0; unit < std::ssize(numbers); ++unit) {
    const int trained = numbers[unit];  // -1: all frozen
    loss = data_parallel.unit(unit, [&] {
      const at::Tensor own =
          trained < 0 ? at::zeros({}, buffers.parameter(0).options().requires_grad(false))
                      : loss_of_unit(buffers, buffers.units()[trained], integers, of, wrong);
      return loss.defined() ? loss + own : own;
    });
  }
  return loss;
}

/// How the gradients of a range compare with the integers.
struct Compared {
  std::int64_t wrong = 0;    // beyond the bound
  std::int64_t rounded = 0;  // within the bound, but not equal

  /// A friend, since nothing calls it where loops are serial (ThreadSanitizer).
  friend Compared operator+(Compared a, Compared b) {
    return {a.wrong + b.wrong, a.rounded + b.rounded};
  }
};

/// What the gradients of a backward with integers should be.
struct Expected {
  const ProofIntegers& integers;
  std::optional<int> own_rank = {};   ///< the integers of that rank alone; nothing: the mean of all
  at::Tensor before = {}, kept = {};  ///< (elements,): what is not sent, of earlier ones and of all
};

/// Relative to the largest of a parameter's values, sent or kept back: they are products and
/// differences in float32, which round.
constexpr float kErrorTolerance = 1e-4F;

/// Elements whose integers lie in the cache.
constexpr std::int64_t kAtATime = 2048;

Compared compare(const FlatBuffers& buffers, Range range, const Expected& should) {
  const ProofIntegers& integers = should.integers;
  const std::optional<int> own_rank = should.own_rank;
  at::Tensor gradients = buffers.mean(range).to(at::kCPU, at::kFloat);
  float tolerance = 0;
  if (should.kept.defined()) {
    const auto of_range = [&range](const at::Tensor& all) {
      return all.narrow(0, range.begin, range.size()).to(at::kCPU, at::kFloat);
    };
    const at::Tensor before = of_range(should.before);
    const at::Tensor kept = of_range(should.kept);
    tolerance = kErrorTolerance * at::stack({gradients, before, kept}).abs().max().item<float>();
    gradients = gradients + (kept - before);
  }
  const float* const got = gradients.const_data_ptr<float>();
  const auto count_unequal = [&](std::int64_t element, float expected, Compared& sum) {
    const float bound =
        own_rank ? 0.0F : integers.bound(integers.contributions(element)) + tolerance;
    const float off = std::abs(got[element - range.begin] - expected);
    ++(off <= bound ? sum.rounded : sum.wrong);  // a NaN is wrong
  };
  const auto count = [&](std::int64_t begin, std::int64_t end, Compared sum) {
    std::array<float, kAtATime> expected;
    for (std::int64_t from = begin; from < end; from += kAtATime) {
      const std::int64_t size = std::min(kAtATime, end - from);
      const Range part = {range.begin + from, range.begin + from + size};
      integers.write(part, own_rank.value_or(kernels::kEach), kernels::kEach, expected.data());
      if (std::memcmp(got + from, expected.data(), size * sizeof(float)) == 0) continue;
      for (std::int64_t i = 0; i < size; ++i) {
        const bool both_nan = std::isnan(got[from + i]) && std::isnan(expected[i]);
        if (got[from + i] == expected[i] || both_nan) continue;
        count_unequal(part.begin + i, expected[i], sum);
      }
    }
    return sum;
  };
  return at::parallel_reduce(std::int64_t{0}, range.size(), ProofIntegers::kGrain, Compared{},
                             count, std::plus<>());
}

/// What the gradients of `part` of a parameter are instead of the mean, in words.
std::string found_instead(const FlatBuffers& buffers, int index, Range part,
                          const ProofIntegers& integers) {
  const at::Tensor got = buffers.mean(part).to(at::kCPU, at::kFloat);
  if (got.count_nonzero().item<std::int64_t>() == 0) return "they are zero";
  at::Tensor mean = got.clone();
  for (int rank = 0; rank < buffers.ranks(); ++rank) {
    integers.write(part, rank, kernels::kEach, mean.mutable_data_ptr<float>());
    if (count_unequal(got, mean) == 0) return fmt::format("they are rank {}'s own", rank);
  }
  integers.write(part, kernels::kEach, kernels::kEach, mean.mutable_data_ptr<float>());
  const at::Tensor finite = mean.isfinite();
  const at::Tensor largest = mean.abs().masked_fill(finite.logical_not(), 0).argmax();
  const double times = got[largest].item<double>() / mean[largest].item<double>();
  const at::Tensor off = (got - mean * times).abs().gt(mean.abs() * 1e-5).logical_and(finite);
  const bool scaled = at::equal(got.isfinite(), finite) && !off.any().item<bool>();
  if (scaled && std::abs(times - 1) > 1e-4) return fmt::format("they are {:.4g} times it", times);
  const at::Tensor first = unequal(got, mean).nonzero()[0][0];
  return fmt::format("element {} is {:.9g} instead of {:.9g}",
                     part.begin - buffers.range(index).begin + first.item<std::int64_t>(),
                     got[first].item<float>(), mean[first].item<float>());
}

/// What is wrong with the gradients on this rank, in words; `rounded`: how many are within the
/// bound only.
std::string find_wrong(const FlatBuffers& buffers, const Expected& should, std::int64_t& rounded) {
  for (int index = 0; index < buffers.count(); ++index) {
    const Range range = buffers.range(index);
    Compared compared;
    Range wrong;  // the first part that is
    for (const Range& part : buffers.owned(range)) {
      const Compared of_part = compare(buffers, part, should);
      if (compared.wrong == 0 && of_part.wrong > 0) wrong = part;
      compared = compared + of_part;
    }
    rounded += compared.rounded;
    if (compared.wrong > 0) {
      std::string words =
          fmt::format("{} of {} gradients of {} differ", with_thousands(compared.wrong),
                      with_thousands(range.size()), buffers.name(index));
      if (should.kept.defined()) return words + ", with the error feedback, from the exact mean";
      if (should.own_rank) return words + " from what backward made on this rank";
      return words +
             " from the exact mean: " + found_instead(buffers, index, wrong, should.integers);
    }
  }
  return written_padding(buffers);
}

/// Of a strategy that loses what it does not send; in words, or empty.
std::string sent_nothing(const FlatBuffers& buffers) {
  const auto is_zero = [&](const Range& part) {
    return buffers.mean(part).count_nonzero().item<std::int64_t>() == 0;
  };
  const bool zero = buffers.owns_all() && std::ranges::all_of(buffers.owned(), is_zero);
  return zero ? "all gradients are zero" : "";
}

constexpr const char* kName = "integer_gradients";

Check exact_mean(const FlatBuffers& buffers, int ranks, std::int64_t rounded) {
  const std::string how = rounded == 0
                              ? "equal"
                              : fmt::format("are within the rounding bound ({} are not equal) of",
                                            with_thousands(rounded));
  return {kName, CheckStatus::passed,
          fmt::format("all {} gradients {} the exact mean over {}",
                      with_thousands(buffers.parameter_count()), how, counted(ranks, "rank"))};
}

/// Of a lossy strategy, whose gradients are the mean with the error feedback, if that is `known`.
Check equal_everywhere(const FlatBuffers& buffers, ProcessGroup& group,
                       const GradientHashes& hashes, bool known, const std::string& waiting) {
  const Check equal = check_gradients_equal(buffers, group, hashes);
  if (equal.status == CheckStatus::failed) return {kName, equal.status, equal.detail};
  return {kName, CheckStatus::declared,
          fmt::format(
              "all {} gradients are equal on all ranks, {}{}",
              with_thousands(buffers.parameter_count()),
              known ? "and with the error feedback the mean over " + counted(group.size(), "rank")
                    : "and what is not sent of them is lost",
              waiting)};
}

/// Backwards with these integers in place of gradients. The integers are of two micro-batches, the
/// last and an earlier one: the first in each round of an even number, else one that is drawn.
/// Returns what is wrong with what the model reads meanwhile; empty: nothing.
std::string backward_with(DataParallel& data_parallel, const ProofIntegers& integers,
                          const IntegerRound& round) {
  const ProofIntegers none = integers.silent();
  const int rank = data_parallel.context().process_group().rank();
  const std::int64_t last = round.micro_batches - 1;
  const std::int64_t drawn =
      last < 2 || round.number % 2 == 0
          ? 0
          : 1 + static_cast<std::int64_t>(round.number / 2 % static_cast<std::uint64_t>(last - 1));
  std::string wrong;
  for (std::int64_t i = 0; i <= last; ++i) {
    data_parallel.before_forward({i, round.micro_batches});
    const bool given = i == drawn || i == last;
    const at::Tensor loss = loss_with_integer_gradients(
        data_parallel, given ? integers : none, {rank, i == drawn ? 0 : 1, round.number}, wrong);
    data_parallel.backward_as_is(loss, {i, round.micro_batches});
  }
  return wrong;
}

/// Of which parameters nothing was sent, though something waits; in words, or empty. A right
/// strategy may send those that have most, or take turns.
std::string still_waiting(const FlatBuffers& buffers, const at::Tensor& before,
                          const at::Tensor& kept) {
  std::vector<std::string> names;
  for (int index = 0; index < buffers.count(); ++index) {
    const Range range = buffers.range(index);
    const at::Tensor waits = before.narrow(0, range.begin, range.size());
    const bool same = at::equal(waits, kept.narrow(0, range.begin, range.size()));
    if (same && waits.count_nonzero().item<std::int64_t>() > 0) {
      names.push_back(buffers.name(index));
    }
  }
  if (names.empty()) return {};
  const std::string more =
      names.size() == 1 ? "" : " and " + counted(std::ssize(names) - 1, "other parameter");
  return fmt::format("; nothing of what was kept back of {}{} went with the next gradients",
                     names[0], more);
}

/// A second round, without new gradients and with nothing put back: what the first kept back
/// (`before`, StrategyState::kept()) travels now, at least in part. What is wrong with it, in
/// words; `waiting`: still_waiting() then.
std::string find_unsent(DataParallel& data_parallel, ProcessGroup& group,
                        const ProofIntegers& integers, const StrategyState& state,
                        const at::Tensor& before, std::string& waiting) {
  const FlatBuffers& buffers = data_parallel.buffers();
  backward_with(data_parallel, integers, IntegerRound{});
  const at::Tensor kept = state.kept(group);
  std::int64_t rounded = 0;
  std::string wrong =
      find_wrong(buffers, {.integers = integers, .before = before, .kept = kept}, rounded);
  waiting = still_waiting(buffers, before, kept);
  const bool waits = before.count_nonzero().item<std::int64_t>() > 0;
  if (wrong.empty() && waits && at::equal(kept, before)) {
    wrong = "what was kept back is not sent with the next gradients, which were zero";
  }
  data_parallel.drop_gradients();
  return wrong;
}

}  // namespace

std::string written_padding(const FlatBuffers& buffers) {
  for (int index = 0; index < buffers.count(); ++index) {
    const Range padding = {buffers.range(index).end, buffers.with_padding(index).end};
    if (padding.size() == 0) continue;
    for (const Range& part : buffers.owned(padding)) {
      if (buffers.mean(part).count_nonzero().item<std::int64_t>() == 0) continue;
      return fmt::format("the padding behind the gradient of {} is not zero", buffers.name(index));
    }
  }
  return {};
}

Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group,
                              IntegerRound round) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const int size = group.size();
  const int given = round.micro_batches > 1 ? 2 : 1;  // micro-batches
  const Agreement agreement = data_parallel.context().plan().agreement;
  const bool lossy = agreement == Agreement::lossy;
  const ProofIntegers finite(size, given, buffers.dtypes().reduce, round.number);
  const ProofIntegers integers = lossy ? finite : finite.overflowing();
  StrategyState state(data_parallel.context().carried());
  const at::Tensor before = state.kept(group);
  const std::string read = backward_with(data_parallel, integers, round);
  const at::Tensor kept = state.kept(group);
  Expected should{.integers = integers};
  if (!lossy && agreement != Agreement::exact) should.own_rank = group.rank();
  if (lossy && kept.defined()) {
    should.before = before;
    should.kept = kept;
  }
  const bool known = !lossy || should.kept.defined();  // else what was not sent is lost
  std::int64_t rounded = 0;
  std::string own = known ? find_wrong(buffers, should, rounded) : sent_nothing(buffers);
  if (own.empty()) own = read;
  const GradientHashes hashes = lossy ? hash_gradients(buffers) : GradientHashes();
  data_parallel.drop_gradients();
  std::string waiting;
  if (should.kept.defined()) {
    const std::string unsent =
        find_unsent(data_parallel, group, integers.silent(), state, kept, waiting);
    if (own.empty()) own = unsent;
  }
  state.put_back();

  const std::string wrong = first_of_all(group, own);
  if (!wrong.empty()) return {kName, CheckStatus::failed, wrong};
  if (agreement == Agreement::exact) return exact_mean(buffers, size, rounded);
  if (lossy) return equal_everywhere(buffers, group, hashes, known, waiting);
  if (agreement == Agreement::none) {
    return {kName, CheckStatus::control,
            "gradients stay each rank's own, as the strategy declares"};
  }
  return {kName, CheckStatus::declared, "gradients are each rank's own, as the strategy declares"};
}

}  // namespace ddprun
