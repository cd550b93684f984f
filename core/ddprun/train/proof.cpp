// The checks that each run makes of itself.
#include "ddprun/train/proof.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr std::int64_t kGrain = 32768;             // elements worth a thread's start
constexpr std::int64_t kHashedAtATime = 16 << 20;  // elements on the way from a GPU
/// Values of a rank lie in size * [-3, 3]: their sums are exact in bfloat16 up to 9 ranks.
constexpr int kIntegerRange = 3;

/// A small integer that depends on the element and the rank, without a pattern that a shifted
/// buffer would also fit.
int small_integer(std::int64_t element, int rank) {
  const std::uint64_t bits =
      counter_hash(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(element));
  return static_cast<int>(bits % (2 * kIntegerRange + 1)) - kIntegerRange;
}

/// Backward of a term of the loss whose gradient with respect to one parameter is this rank's
/// integers. They are made when autograd asks for them, one parameter after another: the check of a
/// model must not take the memory of another one.
struct IntegersBackward final : torch::autograd::Node {
  at::Tensor parameter;
  std::int64_t first_element = 0;
  int rank = 0;
  int factor = 1;

  std::string name() const override { return "IntegersBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    // Laid out as the parameter: it may be transposed.
    at::Tensor values = at::empty_strided(parameter.sizes(), parameter.strides(), at::kFloat);
    float* const data = values.mutable_data_ptr<float>();
    at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        data[i] = static_cast<float>(small_integer(first_element + i, rank) * factor);
      }
    });
    return {values.to(parameter.options())};
  }
};

/// A scalar whose gradients are the integers of `rank`, times `factor`. Autograd runs the nodes
/// made last first, so making the terms from the last parameter to the first lets gradients arrive
/// in buffer order, as in training.
at::Tensor loss_with_integer_gradients(const FlatBuffers& buffers, int rank, int factor) {
  std::vector<at::Tensor> terms;
  for (int index = buffers.count() - 1; index >= 0; --index) {
    const std::shared_ptr<IntegersBackward> node(new IntegersBackward, torch::autograd::deleteNode);
    node->parameter = buffers.parameter(index).detach();
    node->first_element = buffers.range(index).begin;
    node->rank = rank;
    node->factor = factor;
    node->set_next_edges(torch::autograd::collect_next_edges(buffers.parameter(index)));
    terms.push_back(at::zeros({}, node->parameter.options()));
    torch::autograd::set_history(terms.back(), node);
  }
  return at::stack(terms).sum();
}

/// How many gradients of `range` are not the sum over ranks [first, last) of their integers, times
/// `factor`.
std::int64_t count_wrong(const FlatBuffers& buffers, Range range, int first, int last, int factor) {
  const at::Tensor gradients = buffers.gradients(range).to(at::kCPU, at::kFloat);
  const float* const got = gradients.const_data_ptr<float>();
  const auto count = [&](std::int64_t begin, std::int64_t end, std::int64_t wrong) {
    for (std::int64_t i = begin; i < end; ++i) {
      int expected = 0;
      for (int rank = first; rank < last; ++rank) expected += small_integer(range.begin + i, rank);
      if (got[i] != static_cast<float>(expected * factor)) ++wrong;
    }
    return wrong;
  };
  return at::parallel_reduce(std::int64_t{0}, range.size(), kGrain, std::int64_t{0}, count,
                             std::plus<>());
}

}  // namespace

std::uint64_t hash_parameters(const FlatBuffers& buffers) {
  Hash64 hash;
  const std::int64_t end = buffers.all().end;
  for (std::int64_t begin = 0; begin < end; begin += kHashedAtATime) {
    // No copy of what is on the CPU.
    const at::Tensor piece =
        buffers.parameters({begin, std::min(begin + kHashedAtATime, end)}).cpu();
    hash.add(piece.const_data_ptr(), piece.nbytes());
  }
  return hash.value();
}

Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group) {
  FlatBuffers& buffers = data_parallel.buffers();
  const int size = group.size();
  const int me = group.rank();
  data_parallel.before_forward(true);
  data_parallel.backward_as_is(loss_with_integer_gradients(buffers, me, size), true);

  const bool synchronized = data_parallel.context().synchronized();
  std::string wrong;
  for (int index = 0; index < buffers.count() && wrong.empty(); ++index) {
    const Range range = buffers.range(index);
    // Each rank's integers came times the number of ranks, so that their mean is their sum.
    const std::int64_t count = synchronized ? count_wrong(buffers, range, 0, size, 1)
                                            : count_wrong(buffers, range, me, me + 1, size);
    if (count > 0) {
      wrong = fmt::format("{} of {} gradients of {} differ from the exact mean",
                          with_thousands(count), with_thousands(range.size()), buffers.name(index));
    }
  }
  buffers.zero_grad();

  bool all_right = true;
  const auto messages = group.all_gather_object(wrong);
  for (int rank = 0; rank < size; ++rank) {
    if (messages[rank].empty()) continue;
    if (all_right) wrong = fmt::format("rank {}: {}", rank, messages[rank]);
    all_right = false;
  }
  if (!all_right) return {"integer_gradients", CheckStatus::failed, wrong};
  if (!synchronized) {
    return {"integer_gradients", CheckStatus::control,
            "gradients stay each rank's own, as the strategy declares"};
  }
  return {"integer_gradients", CheckStatus::passed,
          fmt::format("all {} gradients equal the exact mean over {} rank{}",
                      with_thousands(buffers.parameter_count()), size, size == 1 ? "" : "s")};
}

Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name) {
  const auto hashes =
      group.all_gather_object(fmt::format("{:016x}", hash_parameters(data_parallel.buffers())));
  const bool equal = std::all_of(hashes.begin(), hashes.end(),
                                 [&](const std::string& hash) { return hash == hashes[0]; });
  if (equal) {
    return {name, CheckStatus::passed,
            fmt::format("hash {} on all {} ranks", hashes[0], hashes.size())};
  }
  const std::string detail = fmt::format("hashes by rank: {}", fmt::join(hashes, ", "));
  if (!data_parallel.context().synchronized()) {
    return {name, CheckStatus::control, "ranks drift apart, as the strategy declares; " + detail};
  }
  return {name, CheckStatus::failed, detail};
}

std::string compare_with_plan(const std::vector<CollectiveRecord>& records,
                              const std::vector<PlannedCollective>& planned) {
  // (kind, bytes) -> how many ran, minus how many were planned
  std::map<std::pair<CollectiveKind, std::int64_t>, int> surplus;
  for (const auto& record : records) ++surplus[{record.kind, record.bytes}];
  for (const auto& collective : planned) --surplus[{collective.kind, collective.bytes}];
  std::vector<std::string> differences;
  for (const auto& [what, count] : surplus) {
    if (count == 0) continue;
    differences.push_back(fmt::format(
        "{} {} of {} bytes {}", std::abs(count), name_of(what.first), with_thousands(what.second),
        count > 0 ? "ran but were not planned" : "were planned but did not run"));
  }
  return fmt::format("{}", fmt::join(differences, "; "));
}

}  // namespace ddprun
