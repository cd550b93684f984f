// What all ranks found.
#include "ddprun/parallel/first_of_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "ddprun/base/hash.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

std::string first_of_all(ProcessGroup& group, const std::string& own) {
  const auto all = group.all_gather_object(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::optional<OtherLine> first_other_line(ProcessGroup& group, const std::string& own,
                                          const std::string& none) {
  const auto hashes = group.all_gather_object(fmt::format("{:x}", hash64(own)));
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) return {};
  const auto texts = group.all_gather_object(own);
  const auto other =
      std::ranges::find_if(texts, [&](const auto& each) { return each != texts[0]; });
  OtherLine out{.rank = static_cast<int>(other - texts.begin())};
  std::istringstream got(*other), expected(texts[0]);
  do {
    if (!std::getline(got, out.got)) out.got = none;
    if (!std::getline(expected, out.expected)) out.expected = none;
  } while (out.got == out.expected);
  return out;
}

std::vector<double> of_all_ranks(ProcessGroup& group, double own) {
  return mapped(group.all_gather_object(fmt::format("{:a}", own)),
                [](const std::string& text) { return std::strtod(text.c_str(), nullptr); });
}

}  // namespace ddprun
