// Which seed a run draws from, and where a drawn run of elements begins.
#include "ddprun/proof/drawn_run.h"

#include <algorithm>
#include <random>
#include <string>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

std::uint64_t agreed_seed(std::optional<std::int64_t> given, ProcessGroup& group) {
  std::random_device device;
  const std::string own = std::to_string(given.value_or(device()));
  return std::stoull(group.all_gather_object(own).front());
}

Range drawn_run(Range part, std::uint64_t draw) {
  const std::int64_t size =
      std::min(part.size(), std::clamp<std::int64_t>(part.size() / 32, 16, 2048));
  const auto places = static_cast<std::uint64_t>(part.size() - size + 1);
  const std::int64_t begin = part.begin + static_cast<std::int64_t>(draw % places);
  return {begin, begin + size};
}

std::vector<Range> drawn_runs(const ParameterLayout& layout, std::uint64_t draw) {
  std::vector<Range> runs;
  for (int index = 0; index < layout.count(); ++index) {
    runs.push_back(
        drawn_run(layout.range(index), counter_hash(draw, static_cast<std::uint64_t>(index))));
  }
  return runs;
}

}  // namespace ddprun
