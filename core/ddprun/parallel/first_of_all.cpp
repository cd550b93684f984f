// What all ranks found.
#include "ddprun/parallel/first_of_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "ddprun/base/hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

std::string first_of_all(ProcessGroup& group, const std::string& own) {
  const auto all = group.all_gather_object(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::optional<ErrorText> first_other_line(ProcessGroup& group, std::vector<std::string> lines,
                                          const std::string& none, ErrorText text) {
  lines.push_back(none);
  const std::string own = list_text(lines, "\n");
  const auto hashes = group.all_gather_object(fmt::format("{:x}", hash64(own)));
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) return {};
  const auto texts = group.all_gather_object(own);
  const auto other =
      std::ranges::find_if(texts, [&](const auto& each) { return each != texts[0]; });
  const auto of_other = split_at(*other, '\n'), of_first = split_at(texts[0], '\n');
  const auto [got, expected] = std::ranges::mismatch(of_other, of_first);
  text.got = fmt::format("on rank {}: {}", other - texts.begin(), *got);
  text.expected = "as on rank 0: " + *expected;
  return text;
}

std::vector<double> of_all_ranks(ProcessGroup& group, double own) {
  return mapped(group.all_gather_object(fmt::format("{:a}", own)),
                [](const std::string& text) { return std::strtod(text.c_str(), nullptr); });
}

}  // namespace ddprun
