// A hash of each sample's tokens, over all ranks.
#include "ddprun/experiments/training/data_proof.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/all_gather_values.h"

namespace ddprun {

namespace {

using Hashes = std::vector<std::uint64_t>;

/// Of inputs and targets, sample by sample.
void add_hashes(const Batch& batch, Hashes& out) {
  const at::Tensor ids = batch.ids.cpu(), targets = batch.targets.cpu();
  for (std::int64_t sample = 0; sample < ids.size(0); ++sample) {
    Hash64 hash;
    for (const at::Tensor& each : {ids, targets}) {
      hash.add(each.select(0, sample).const_data_ptr(), each.nbytes() / each.size(0));
    }
    out.push_back(hash.value());
  }
}

Hashes sorted(Hashes hashes) {
  std::ranges::sort(hashes);
  return hashes;
}

/// The first sample that was read too often or too seldom, in words.
std::string first_missed(const Hashes& found, const Hashes& planned) {
  const auto times = [&](const Hashes& all, std::uint64_t hash) {
    return std::ranges::count(all, hash);
  };
  const auto missed = std::ranges::find_if(
      planned, [&](std::uint64_t hash) { return times(found, hash) != times(planned, hash); });
  return fmt::format("sample {} of the step's {} was read by the ranks {}, and {} is right",
                     missed - planned.begin(), planned.size(),
                     counted(times(found, *missed), "time"), times(planned, *missed));
}

}  // namespace

Check check_samples_read(const DataSource& data, std::int64_t step, const std::vector<Batch>& read,
                         ProcessGroup& group) {
  Hashes own;
  for (const Batch& batch : read) add_hashes(batch, own);
  const std::int64_t count = std::ssize(own);
  add_hashes(data.batch(step, group.rank() * count, count), own);
  Hashes found, planned;
  for (const Hashes& of_rank : all_gather_values(group, own)) {
    found.insert(found.end(), of_rank.begin(), of_rank.begin() + count);
    planned.insert(planned.end(), of_rank.begin() + count, of_rank.end());
  }
  const bool right = sorted(found) == sorted(planned);
  return make_check("samples_read", right,
                    right ? fmt::format("each of the step's {} by one rank, once",
                                        counted(std::ssize(planned), "sample"))
                          : first_missed(found, planned));
}

}  // namespace ddprun
