// A stopped rank explains every wait; else the calls that ranks have made tell who is behind.
#include "runner/launch/progress_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/child_process.h"

namespace ddprun {

namespace {

std::string place_text(const RankStatus& status) {
  std::string text = status.phase;
  if (status.last.number > 0) {
    text += fmt::format(", after call {} ({})", status.last.number, status.last.text());
  }
  return text;
}

std::string expected_text(double timeout_s) {
  return fmt::format("every rank where the others wait for it, within {:g} s", timeout_s);
}

RankError stopped_error(const WatchedRank& rank, double timeout_s) {
  return {FailureKind::died,
          {.what = "stopped by signal " + signal_text(rank.stopped_by),
           .got = "it does not go on, " + place_text(rank.status),
           .expected = expected_text(timeout_s),
           .hint = "who stopped it? A debugger, a user or a batch system can"}};
}

RankError behind_error(const RankStatus& late, const RankStatus& ahead, double timeout_s) {
  const std::string meeting =
      ahead.last.number == 0 ? "to meet"
                             : fmt::format("in call {} ({})", ahead.last.number, ahead.last.text());
  return {FailureKind::timeout,
          {.what = "the other ranks waited for it in vain",
           .got = fmt::format("{}; the others wait {}", place_text(late), meeting),
           .expected = expected_text(timeout_s),
           .hint = "it hangs, or its own work takes longer than `timeout_s` under `world:` allows "
                   "the others to wait"}};
}

}  // namespace

std::optional<RankFailure> find_late_rank(const std::vector<WatchedRank>& ranks, double timeout_s) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].stopped_by != 0) {
      return RankFailure{static_cast<int>(rank), stopped_error(ranks[rank], timeout_s)};
    }
  }
  const auto calls = [](const WatchedRank& rank) { return rank.status.last.number; };
  const auto ahead = std::ranges::max_element(ranks, {}, calls);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const WatchedRank& each = ranks[rank];
    const bool behind = calls(each) < calls(*ahead) || calls(each) == 0;
    if (each.failed || each.status.waiting_since_ns || !behind) continue;
    return RankFailure{static_cast<int>(rank), behind_error(each.status, ahead->status, timeout_s)};
  }
  return {};
}

}  // namespace ddprun
