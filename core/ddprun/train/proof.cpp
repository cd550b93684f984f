// The checks that each run makes of itself.
#include "ddprun/train/proof.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/train/integer_loss.h"
#include "ddprun/train/proof_integers.h"
#include "ddprun/train/whole_buffers.h"

namespace ddprun {

namespace {

constexpr std::int64_t kGrain = 32768;             // elements worth a thread's start
constexpr std::int64_t kHashedAtATime = 16 << 20;  // elements on the way from a GPU

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
  std::optional<int> own_rank = {};  ///< the integers of that rank alone; nothing: the mean of all
  at::Tensor kept_back = {};         ///< (elements,): what is missing of them; undefined: nothing
};

/// Relative to the largest of a parameter's values: what is sent and what is kept back are products
/// and differences in float32, which round.
constexpr float kKeptBackTolerance = 1e-4F;

Compared compare(const FlatBuffers& buffers, Range range, const Expected& should) {
  const ProofIntegers& integers = should.integers;
  const std::optional<int> own_rank = should.own_rank;
  at::Tensor gradients = buffers.mean(range).to(at::kCPU, at::kFloat);
  float tolerance = 0;
  if (should.kept_back.defined()) {
    const at::Tensor missing =
        should.kept_back.narrow(0, range.begin, range.size()).to(at::kCPU, at::kFloat);
    tolerance =
        kKeptBackTolerance * at::maximum(gradients.abs().max(), missing.abs().max()).item<float>();
    gradients = gradients + missing;
  }
  const float* const got = gradients.const_data_ptr<float>();
  const auto count = [&](std::int64_t begin, std::int64_t end, Compared sum) {
    integers.for_each(
        {range.begin + begin, range.begin + end},
        [&](std::int64_t element, const ProofIntegers::Contributions& both) {
          const float value = got[element - range.begin];
          const float expected = own_rank ? integers.own(both, *own_rank) : integers.mean(both);
          if (value == expected) return;
          const float bound = own_rank ? 0.0F : integers.bound(both) + tolerance;
          ++(std::abs(value - expected) <= bound ? sum.rounded : sum.wrong);  // a NaN is wrong
        });
    return sum;
  };
  return at::parallel_reduce(std::int64_t{0}, range.size(), kGrain, Compared{}, count,
                             std::plus<>());
}

/// The parts of `range` that this rank owns.
std::vector<Range> owned_parts(const FlatBuffers& buffers, Range range) {
  std::vector<Range> parts;
  for (const Range& own : buffers.owned()) {
    const Range part = shared(own, range);
    if (part.size() > 0) parts.push_back(part);
  }
  return parts;
}

/// What is wrong with the gradients on this rank, in words; `rounded`: how many are within the
/// bound only.
std::string find_wrong(const FlatBuffers& buffers, const Expected& should, std::int64_t& rounded) {
  for (int index = 0; index < buffers.count(); ++index) {
    const Range range = buffers.range(index);
    Compared compared;
    for (const Range& part : owned_parts(buffers, range)) {
      compared = compared + compare(buffers, part, should);
    }
    rounded += compared.rounded;
    if (compared.wrong > 0) {
      return fmt::format("{} of {} gradients of {} differ from the exact mean",
                         with_thousands(compared.wrong), with_thousands(range.size()),
                         buffers.name(index));
    }
    for (const Range& part : owned_parts(buffers, {range.end, buffers.with_padding(index).end})) {
      if (buffers.mean(part).count_nonzero().item<std::int64_t>() == 0) continue;
      return fmt::format("the padding behind the gradient of {} is not zero", buffers.name(index));
    }
  }
  return {};
}

/// Every rank's words, of which the first that are not empty are returned, with their rank.
std::string first_of_all(ProcessGroup& group, const std::string& own) {
  const auto all = group.all_gather_object(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::uint64_t hash_flat(const at::Tensor& flat) {
  Hash64 hash;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kHashedAtATime) {
    // No copy of what is on the CPU.
    const at::Tensor piece =
        flat.narrow(0, begin, std::min(kHashedAtATime, flat.numel() - begin)).cpu();
    hash.add(piece.const_data_ptr(), piece.nbytes());
  }
  return hash.value();
}

/// The first parameter, in the order of the forward pass, whose hash is not the same on all ranks,
/// and the ranks on which it is not that of rank 0. Empty: there is none.
std::string name_difference(const FlatBuffers& buffers, ProcessGroup& group,
                            const std::vector<std::uint64_t>& own) {
  std::vector<std::vector<std::uint64_t>> all;
  for (const std::string& text : group.all_gather_object(nlohmann::json(own).dump())) {
    all.push_back(nlohmann::json::parse(text));
  }
  for (int index = buffers.count() - 1; index >= 0; --index) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank][index] != all[0][index]) ranks.push_back(rank);
    }
    if (ranks.empty()) continue;
    return fmt::format("{} is not that of rank 0 on rank{} {}", buffers.name(index),
                       ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  }
  return {};
}

/// What a strategy leaves for the next step, put back after backwards that are no steps.
class StrategyState {
 public:
  explicit StrategyState(Strategy& strategy)
      : tensors_(strategy.state()), kept_back_(strategy.kept_back()) {
    if (kept_back_.defined()) tensors_.push_back(kept_back_);
    for (const at::Tensor& tensor : tensors_) before_.push_back(tensor.clone());
  }

  /// By how much the mean over the ranks of what they keep back has grown since; undefined if they
  /// keep nothing. All ranks call it.
  at::Tensor since(ProcessGroup& group) const {
    if (!kept_back_.defined()) return {};
    at::Tensor grown = kept_back_ - before_.back();
    group.all_reduce(grown, ReduceOp::avg, "kept back").wait();
    return grown;
  }

  void put_back() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(before_[i]);
  }

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor kept_back_;
  std::vector<at::Tensor> before_;
};

/// How many elements of `read` are not those of `master` in its dtype. Each NaN equals another.
std::int64_t count_stale(const at::Tensor& master, const at::Tensor& read) {
  const at::Tensor expected = master.to(read.scalar_type());
  const at::Tensor numbers = expected.eq(expected).logical_or(read.eq(read));
  return expected.ne(read).logical_and(numbers).count_nonzero().item<std::int64_t>();
}

/// Calls `look` for each unit while the model may read it. Where ranks own parts, the strategy has
/// to gather it.
void for_each_unit(DataParallel& data_parallel, const std::function<void(const Unit&)>& look) {
  const FlatBuffers& buffers = data_parallel.buffers();
  for (int unit = 0; unit < std::ssize(buffers.units()); ++unit) {
    if (!buffers.owns_all()) data_parallel.strategy().before_unit(Pass::forward, unit);
    look(buffers.units()[unit]);
    if (!buffers.owns_all()) data_parallel.strategy().after_unit(Pass::forward, unit);
  }
}

/// What the model would read of a unit that is not its parameters, `masters`; empty if there is
/// none.
std::string find_stale(const FlatBuffers& buffers, const Unit& unit, const at::Tensor& masters) {
  for (int index = unit.last; index >= unit.first; --index) {
    const Range range = buffers.range(index);
    const at::Tensor master = part_of(masters, unit.range, range);
    std::int64_t stale = 0;
    for (const at::Tensor& read : buffers.read(index)) {
      if (read.const_data_ptr() == master.const_data_ptr()) continue;
      stale = std::max(stale, count_stale(master, read));
    }
    if (stale == 0) continue;
    return fmt::format(
        "{} of {} elements of {} that the model reads are not the parameters, "
        "rounded: after writing parameters, call parameters_changed()",
        with_thousands(stale), with_thousands(master.numel()), buffers.name(index));
  }
  return {};
}

/// A hash for each parameter, in the order of the buffers: of what the model reads where ranks own
/// parts, else of the parameter itself with its padding.
std::vector<std::uint64_t> hash_each(DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  std::vector<std::uint64_t> hashes(buffers.count());
  for_each_unit(data_parallel, [&](const Unit& unit) {
    for (int index = unit.first; index <= unit.last; ++index) {
      if (buffers.owns_all()) {
        hashes[index] = hash_flat(buffers.parameters(buffers.with_padding(index)));
        continue;
      }
      Hash64 hash;
      for (const at::Tensor& read : buffers.read(index)) {
        const std::uint64_t one = hash_flat(read);
        hash.add(&one, sizeof one);
      }
      hashes[index] = hash.value();
    }
  });
  return hashes;
}

}  // namespace

std::uint64_t hash_parameters(const DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  if (buffers.owns_all()) return hash_flat(buffers.parameters(buffers.all()));
  Hash64 hash;
  for (auto unit = buffers.units().rbegin(); unit != buffers.units().rend(); ++unit) {
    const at::Tensor values = whole_parameters(data_parallel, unit->range).cpu();
    hash.add(values.const_data_ptr(), values.nbytes());
  }
  return hash.value();
}

Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group,
                              IntegerRound round) {
  FlatBuffers& buffers = data_parallel.buffers();
  const int size = group.size();
  const int me = group.rank();
  const ProofIntegers integers(size, round.micro_batches, buffers.dtypes().reduce, round.number);
  StrategyState kept(data_parallel.strategy());
  for (int i = 0; i < round.micro_batches; ++i) {
    const bool last = i + 1 == round.micro_batches;
    data_parallel.before_forward(last);
    data_parallel.backward_as_is(loss_with_integer_gradients(data_parallel, integers, me, i), last);
  }
  const Agreement agreement = data_parallel.context().agreement();
  const bool exchanged = agreement == Agreement::exact || agreement == Agreement::lossy;
  Expected should{.integers = integers};
  if (!exchanged) should.own_rank = me;
  if (agreement == Agreement::lossy) should.kept_back = kept.since(group);
  std::int64_t rounded = 0;
  const std::string own = find_wrong(buffers, should, rounded);
  const GradientHashes hashes = exchanged ? hash_gradients(buffers) : GradientHashes();
  buffers.zero_grad();
  kept.put_back();

  const char* const name = "integer_gradients";
  const std::string wrong = first_of_all(group, own);
  if (!wrong.empty()) return {name, CheckStatus::failed, wrong};
  if (agreement == Agreement::none) {
    return {name, CheckStatus::control, "gradients stay each rank's own, as the strategy declares"};
  }
  if (agreement == Agreement::periodic) {
    return {name, CheckStatus::declared,
            "gradients are each rank's own, and parameters are equal each time the ranks meet"};
  }
  if (agreement == Agreement::lossy) {
    const Check equal = check_gradients_equal(buffers, group, hashes);
    if (equal.status == CheckStatus::failed) return {name, equal.status, equal.detail};
    return {name, CheckStatus::declared,
            fmt::format("all {} gradients are equal on all ranks, and with what is kept back the "
                        "mean over {} ranks",
                        with_thousands(buffers.parameter_count()), size)};
  }
  const std::string how = rounded == 0
                              ? "equal"
                              : fmt::format("are within the rounding bound ({} are not equal) of",
                                            with_thousands(rounded));
  return {"integer_gradients", CheckStatus::passed,
          fmt::format("all {} gradients {} the exact mean over {} rank{}",
                      with_thousands(buffers.parameter_count()), how, size, size == 1 ? "" : "s")};
}

Check check_initial_parameters(DataParallel& data_parallel, ProcessGroup& group) {
  Check check = check_parameters_equal(data_parallel, group, "initial_parameters_equal");
  const FlatBuffers& buffers = data_parallel.buffers();
  std::string own;
  for (int index = buffers.count() - 1; index >= 0 && own.empty(); --index) {
    for (const Range& part : owned_parts(buffers, buffers.range(index))) {
      if (!buffers.parameters(part).isnan().any().item<bool>()) continue;
      own = fmt::format(
          "{} is not that of rank 0, which alone has initial values: the strategy's "
          "setup() must broadcast them",
          buffers.name(index));
    }
  }
  const std::string unset = first_of_all(group, own);
  if (!unset.empty()) return {check.name, CheckStatus::failed, unset};
  return check;
}

Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name) {
  const FlatBuffers& buffers = data_parallel.buffers();
  if (!data_parallel.strategy().ranks_agree()) {
    return {name, CheckStatus::declared,
            "each rank has its own until the ranks meet again, as the strategy declares"};
  }
  std::vector<std::uint64_t> own;
  std::uint64_t whole = 0;
  if (buffers.owns_all()) {
    whole = hash_parameters(data_parallel);
  } else {
    own = hash_each(data_parallel);
    Hash64 hash;
    hash.add(own.data(), own.size() * sizeof own[0]);
    whole = hash.value();
  }
  const auto hashes = group.all_gather_object(fmt::format("{:016x}", whole));
  const bool equal = std::all_of(hashes.begin(), hashes.end(),
                                 [&](const std::string& hash) { return hash == hashes[0]; });
  if (equal) {
    return {name, CheckStatus::passed,
            fmt::format("hash {}{} on all {} ranks", hashes[0],
                        buffers.owns_all() ? "" : " of what the model reads", hashes.size())};
  }
  if (own.empty()) own = hash_each(data_parallel);
  const std::string detail = fmt::format(
      "{}; hashes by rank: {}", name_difference(buffers, group, own), fmt::join(hashes, ", "));
  if (data_parallel.context().agreement() == Agreement::none) {
    return {name, CheckStatus::control, "ranks drift apart, as the strategy declares; " + detail};
  }
  return {name, CheckStatus::failed, detail};
}

GradientHashes hash_gradients(const FlatBuffers& buffers) {
  GradientHashes hashes;
  if (!buffers.owns_all()) return hashes;
  for (int index = 0; index < buffers.count(); ++index) {
    hashes.push_back(hash_flat(buffers.gradients(buffers.with_padding(index))));
  }
  return hashes;
}

Check check_gradients_equal(const FlatBuffers& buffers, ProcessGroup& group,
                            const GradientHashes& own) {
  if (own.empty()) {
    return {"gradients_equal", CheckStatus::passed, "the mean of each gradient is on one rank"};
  }
  const std::string difference = name_difference(buffers, group, own);
  if (difference.empty()) {
    return {"gradients_equal", CheckStatus::passed, "every gradient is equal on all ranks"};
  }
  return {"gradients_equal", CheckStatus::failed, "the gradient of " + difference};
}

Check check_compute_copy(DataParallel& data_parallel, ProcessGroup& group) {
  const FlatBuffers& buffers = data_parallel.buffers();
  std::string own;
  for_each_unit(data_parallel, [&](const Unit& unit) {
    const at::Tensor masters = whole_parameters(data_parallel, unit.range);
    if (own.empty()) own = find_stale(buffers, unit, masters);
  });
  const std::string stale = first_of_all(group, own);
  if (!stale.empty()) return {"compute_copy", CheckStatus::failed, stale};
  const auto dtype =
      buffers.has_copy() ? buffers.dtypes().compute : buffers.parameter(0).scalar_type();
  return {"compute_copy", CheckStatus::passed,
          fmt::format("what the model reads is the parameters in {}, on all ranks",
                      at::toString(dtype))};
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
