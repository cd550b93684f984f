// The checks of parameters, of what the model reads, and of collectives.
#include "ddprun/proof/proof.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "ddprun/base/hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/drawn_run.h"
#include "ddprun/proof/initial_values.h"

namespace ddprun {

namespace {

constexpr std::int64_t kHashedAtATime = 16 << 20;  // elements on the way from a GPU

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

std::uint64_t hash_of(const std::vector<std::uint64_t>& values) {
  Hash64 hash;
  hash.add(values.data(), values.size() * sizeof values[0]);
  return hash.value();
}

/// Of parameters' hashes in the order of their names: that of the buffers goes by units.
std::uint64_t hash_by_name(const std::vector<std::string>& names,
                           const std::vector<std::uint64_t>& hashes) {
  std::map<std::string, std::uint64_t> sorted;
  for (std::size_t i = 0; i < names.size(); ++i) sorted[names[i]] = hashes[i];
  return hash_of(mapped(sorted, [](const auto& each) { return each.second; }));
}

/// The last of these names whose hash is not the same on all ranks, and the ranks on which it is
/// not that of rank 0. Empty: there is none. Parameters of the buffers come in the reverse order of
/// the forward pass.
std::string name_difference(const std::vector<std::string>& names, ProcessGroup& group,
                            const std::vector<std::uint64_t>& own) {
  const auto all = all_gather_values(group, own);
  for (std::ptrdiff_t index = std::ssize(names) - 1; index >= 0; --index) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank][index] != all[0][index]) ranks.push_back(rank);
    }
    if (ranks.empty()) continue;
    return fmt::format("{} is not that of rank 0 on rank{} {}", names[index],
                       ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  }
  return {};
}

/// Of what the model reads of a parameter.
std::uint64_t hash_read(const FlatBuffers& buffers, int index) {
  Hash64 hash;
  for (const at::Tensor& read : buffers.read(index)) {
    const std::uint64_t one = hash_flat(read);
    hash.add(&one, sizeof one);
  }
  return hash.value();
}

/// Calls `look` for each unit while the model may read it. Where ranks own parts, the strategy has
/// to gather it.
void for_each_unit(DataParallel& data_parallel, const std::function<void(const Unit&)>& look) {
  const FlatBuffers& buffers = data_parallel.buffers();
  UnitListener* const listener = buffers.owns_all() ? nullptr : data_parallel.context().listener();
  for (int unit = 0; unit < std::ssize(buffers.units()); ++unit) {
    if (listener != nullptr) listener->before_unit(Pass::forward, unit);
    look(buffers.units()[unit]);
    if (listener != nullptr) listener->after_unit(Pass::forward, unit);
  }
}

/// How many elements of `read` are not the `master`'s, rounded; both are 1-D. It goes by pieces, as
/// the largest parameter rounded once more would be a rank's peak.
std::int64_t count_stale(const at::Tensor& read, const at::Tensor& master) {
  constexpr std::int64_t kAtATime = 1 << 20;
  std::int64_t stale = 0;
  for (std::int64_t begin = 0; begin < master.numel(); begin += kAtATime) {
    const std::int64_t count = std::min(kAtATime, master.numel() - begin);
    stale += count_unequal(read.narrow(0, begin, count),
                           master.narrow(0, begin, count).to(read.scalar_type()));
  }
  return stale;
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
      stale = std::max(stale, count_stale(read, master));
    }
    if (stale == 0) continue;
    return fmt::format(
        "{} of {} elements of {} that the model reads are not the parameters, "
        "rounded: after writing parameters, call parameters_changed()",
        with_thousands(stale), with_thousands(master.numel()), buffers.name(index));
  }
  return {};
}

/// A hash for each frozen parameter, in the order of the buffers: of the values or, with `as_read`,
/// of what the model reads where they are held in slices.
std::vector<std::uint64_t> hash_frozen(const DataParallel& data_parallel, bool as_read) {
  FrozenParameters* const frozen = data_parallel.frozen();
  if (frozen == nullptr) return {};
  const FlatBuffers& buffers = frozen->buffers();
  std::vector<std::uint64_t> hashes(buffers.count());
  const auto hash_unit = [&](const Unit& unit) {
    const bool gathered = as_read && frozen->in_slices();
    const at::Tensor values = gathered ? at::Tensor() : frozen->whole(unit);
    for (int index = unit.first; index <= unit.last; ++index) {
      hashes[index] = gathered ? hash_read(buffers, index)
                               : hash_flat(part_of(values, unit.range, buffers.range(index)));
    }
  };
  if (as_read) {
    frozen->for_each_unit(hash_unit);
  } else {
    for (const Unit& unit : buffers.units()) hash_unit(unit);
  }
  return hashes;
}

/// The names that hash_each() has hashes of.
std::vector<std::string> hashed_names(const DataParallel& data_parallel) {
  std::vector<std::string> names = data_parallel.buffers().names();
  if (const FrozenParameters* const frozen = data_parallel.frozen()) {
    const std::vector<std::string>& more = frozen->buffers().names();
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

/// A hash for each parameter, in the order of the buffers and then the frozen: of what the model
/// reads where ranks own parts, else of the parameter itself with its padding.
std::vector<std::uint64_t> hash_each(DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  std::vector<std::uint64_t> hashes(buffers.count());
  for_each_unit(data_parallel, [&](const Unit& unit) {
    for (int index = unit.first; index <= unit.last; ++index) {
      if (buffers.owns_all()) {
        hashes[index] = hash_flat(buffers.parameters(buffers.with_padding(index)));
        continue;
      }
      hashes[index] = hash_read(buffers, index);
    }
  });
  const std::vector<std::uint64_t> frozen = hash_frozen(data_parallel, /*as_read=*/true);
  hashes.insert(hashes.end(), frozen.begin(), frozen.end());
  return hashes;
}

/// What is wrong with the first parameter that has a NaN in what this rank owns; empty: none has.
std::string without_initial_value(const FlatBuffers& buffers) {
  for (int index = buffers.count() - 1; index >= 0; --index) {
    for (const Range& part : buffers.owned(buffers.range(index))) {
      // The largest of values of which one is a NaN is a NaN.
      if (!buffers.parameters(part).max().isnan().item<bool>()) continue;
      return fmt::format(
          "{} is not that of rank 0, which alone has initial values: the strategy's "
          "setup() must broadcast them",
          buffers.name(index));
    }
  }
  return {};
}

}  // namespace

Check check_of_all(ProcessGroup& group, const std::string& name, const std::string& own,
                   const std::string& passed) {
  const std::string wrong = first_of_all(group, own);
  return make_check(name, wrong.empty(), wrong.empty() ? passed : wrong);
}

std::uint64_t hash_frozen_parameters(const DataParallel& data_parallel) {
  const FrozenParameters* const frozen = data_parallel.frozen();
  if (frozen == nullptr) return hash_of({});
  return hash_by_name(frozen->buffers().names(), hash_frozen(data_parallel, /*as_read=*/false));
}

std::uint64_t hash_parameters(const DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  std::vector<std::uint64_t> hashes(buffers.count());
  for (const Unit& unit : buffers.units()) {
    const at::Tensor values = whole_parameters(data_parallel, unit.range);
    for (int index = unit.first; index <= unit.last; ++index) {
      hashes[index] = hash_flat(part_of(values, unit.range, buffers.range(index)));
    }
  }
  const std::vector<std::uint64_t> frozen = hash_frozen(data_parallel, /*as_read=*/false);
  hashes.insert(hashes.end(), frozen.begin(), frozen.end());
  return hash_by_name(hashed_names(data_parallel), hashes);
}

Check check_initial_parameters(DataParallel& data_parallel, ProcessGroup& group,
                               const InitialValues* values) {
  Check check = check_parameters_equal(data_parallel, group, "initial_parameters_equal");
  std::string own = without_initial_value(data_parallel.buffers());
  if (const FrozenParameters* const frozen = data_parallel.frozen(); frozen && own.empty()) {
    own = without_initial_value(frozen->buffers());
  }
  std::string wrong = first_of_all(group, own);
  if (wrong.empty() && values && check.status != CheckStatus::failed) {
    wrong = values->find_changed(data_parallel, group);
  }
  if (!wrong.empty()) return {check.name, CheckStatus::failed, wrong};
  return check;
}

Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name) {
  data_parallel.steps_alike().compare();
  const FlatBuffers& buffers = data_parallel.buffers();
  if (const BufferContext& context = data_parallel.context(); !context.ranks_agree()) {
    return {name, CheckStatus::declared,
            context.meeting() == Meeting::mixed
                ? "each rank has a mean of its own, as the strategy declares"
                : "each rank has its own until the ranks average again, as the strategy declares"};
  }
  std::vector<std::uint64_t> own;
  std::uint64_t whole = 0;
  if (buffers.owns_all()) {
    whole = hash_parameters(data_parallel);
  } else {
    own = hash_each(data_parallel);
    whole = hash_of(own);
  }
  const auto hashes = group.all_gather_object(fmt::format("{:016x}", whole));
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) {
    return {name, CheckStatus::passed,
            fmt::format("hash {}{} on {}", hashes[0],
                        buffers.owns_all() ? "" : " of what the model reads",
                        all_counted(std::ssize(hashes), "rank"))};
  }
  if (own.empty()) own = hash_each(data_parallel);
  const bool met = data_parallel.context().plan().agreement == Agreement::periodic;
  const std::string detail = fmt::format(
      "{}{}; hashes by rank: {}", name_difference(hashed_names(data_parallel), group, own),
      met ? ", though ranks_met() says that the ranks met" : "", fmt::join(hashes, ", "));
  if (data_parallel.context().plan().agreement == Agreement::none) {
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
  const std::string difference = name_difference(buffers.names(), group, own);
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
  if (FrozenParameters* const frozen = data_parallel.frozen()) {
    frozen->for_each_unit([&](const Unit& unit) {
      const at::Tensor values = frozen->whole(unit);
      if (own.empty()) own = find_stale(frozen->buffers(), unit, values);
    });
  }
  const auto dtype =
      buffers.has_copy() ? buffers.dtypes().compute : buffers.parameter(0).scalar_type();
  return check_of_all(group, "compute_copy", own,
                      fmt::format("what the model reads is the parameters in {}, on all ranks",
                                  at::toString(dtype)));
}

std::string too_few_bytes(const std::vector<CollectiveRecord>& records,
                          const FlatBuffers& buffers) {
  const std::int64_t gradients =
      buffers.parameter_count() *
      static_cast<std::int64_t>(c10::elementSize(buffers.dtypes().reduce));
  std::int64_t bytes = 0;
  for (const CollectiveRecord& record : records) bytes += record.bytes;
  if (bytes >= gradients) return {};
  return fmt::format(
      "collectives of {} bytes cannot average {} bytes of gradients: what else the ranks exchange "
      "is in no figure",
      with_thousands(bytes), with_thousands(gradients));
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
  return list_text(differences, "; ");
}

}  // namespace ddprun
