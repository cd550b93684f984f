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
#include <bit>
#include <cstring>
#include <functional>
#include <locale>
#include <map>
#include <memory>

namespace ddprun {

namespace {

struct ThousandsSeparator : std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

constexpr std::int64_t kGrain = 32768;  // elements worth a thread's start
constexpr int kIntegerRange =
    3;  // rank values lie in size * [-3, 3]: sums stay exact in bfloat16 up to 9 ranks

/// A small integer that depends on the element and the rank, without a pattern that a shifted
/// buffer would also fit.
int small_integer(std::int64_t element, int rank) {
  std::uint64_t x = static_cast<std::uint64_t>(element) * 0x9E3779B97F4A7C15ULL +
                    static_cast<std::uint64_t>(rank + 1) * 0xD1B54A32D192ED03ULL;
  x ^= x >> 32;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 29;
  return static_cast<int>(x % (2 * kIntegerRange + 1)) - kIntegerRange;
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

/// 1234567 as "1,234,567".
std::string group_digits(std::int64_t value) {
  return fmt::format(std::locale(std::locale::classic(), new ThousandsSeparator), "{:L}", value);
}

}  // namespace

std::uint64_t hash_parameters(const FlatBuffers& buffers) {
  const at::Tensor flat = buffers.parameters(buffers.all()).cpu();
  const auto* bytes = static_cast<const unsigned char*>(flat.const_data_ptr());
  const std::size_t words = flat.nbytes() / sizeof(std::uint64_t);  // ranges are 64-byte multiples
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i * sizeof(word), sizeof(word));
    auto& lane = lanes[i % 4];
    lane = (std::rotl(lane, 29) ^ word) * 0x9E3779B97F4A7C15ULL;
  }
  std::uint64_t hash = words;
  for (const std::uint64_t lane : lanes)
    hash = (std::rotl(hash, 31) ^ lane) * 0xD1B54A32D192ED03ULL;
  return hash;
}

Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group) {
  FlatBuffers& buffers = data_parallel.buffers();
  const int size = group.size();
  const int me = group.rank();
  data_parallel.before_forward(true);
  data_parallel.backward(loss_with_integer_gradients(buffers, me, size), true);

  const bool synchronized = data_parallel.context().synchronized();
  std::string wrong;
  for (int index = 0; index < buffers.count() && wrong.empty(); ++index) {
    const Range range = buffers.range(index);
    // Each rank's integers came times the number of ranks, so that their mean is their sum.
    const std::int64_t count = synchronized ? count_wrong(buffers, range, 0, size, 1)
                                            : count_wrong(buffers, range, me, me + 1, size);
    if (count > 0) {
      wrong = fmt::format("{} of {} gradients of {} differ from the exact mean",
                          group_digits(count), group_digits(range.size()), buffers.name(index));
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
  if (!all_right) return {"integer_gradients", "failed", wrong};
  if (!synchronized) {
    return {"integer_gradients", "control",
            "gradients stay each rank's own, as the strategy declares"};
  }
  return {"integer_gradients", "passed",
          fmt::format("all {} gradients equal the exact mean over {} rank{}",
                      group_digits(buffers.parameter_count()), size, size == 1 ? "" : "s")};
}

Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name) {
  const auto hashes =
      group.all_gather_object(fmt::format("{:016x}", hash_parameters(data_parallel.buffers())));
  const bool equal = std::all_of(hashes.begin(), hashes.end(),
                                 [&](const std::string& hash) { return hash == hashes[0]; });
  if (equal) {
    return {name, "passed", fmt::format("hash {} on all {} ranks", hashes[0], hashes.size())};
  }
  const std::string detail = fmt::format("hashes by rank: {}", fmt::join(hashes, ", "));
  if (!data_parallel.context().synchronized()) {
    return {name, "control", "ranks drift apart, as the strategy declares; " + detail};
  }
  return {name, "failed", detail};
}

std::string compare_with_plan(const std::vector<CollectiveRecord>& records,
                              const std::vector<PlannedCollective>& planned) {
  std::map<std::pair<CollectiveKind, std::int64_t>, int>
      surplus;  // (kind, bytes) -> ran minus planned
  for (const auto& record : records) ++surplus[{record.kind, record.bytes}];
  for (const auto& collective : planned) --surplus[{collective.kind, collective.bytes}];
  std::string difference;
  for (const auto& [what, count] : surplus) {
    if (count == 0) continue;
    difference +=
        fmt::format("{}{} {} of {} bytes {}", difference.empty() ? "" : "; ", std::abs(count),
                    to_string(what.first), group_digits(what.second),
                    count > 0 ? "ran but were not planned" : "were planned but did not run");
  }
  return difference;
}

}  // namespace ddprun
