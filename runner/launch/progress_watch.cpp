// Compares each rank's count of signs with what it was. Of ranks that wait a stopped one explains
// it; else the calls that ranks have made tell who is behind.
#include "runner/launch/progress_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/child_process.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

/// By how much a silence may be longer than the longest before.
constexpr std::int64_t kTimesLongest = 20;

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

ProgressWatch::ProgressWatch(int ranks, double limit_s)
    : least_ns_(static_cast<std::int64_t>(limit_s * 1e9)), ranks_(ranks, {0, now_ns(), now_ns()}) {}

std::int64_t ProgressWatch::limit_ns() const {
  return std::max(least_ns_, kTimesLongest * longest_ns_);
}

bool ProgressWatch::is_silent(int rank, const RankStatus& status, std::int64_t now_ns) {
  Heard& heard = ranks_[rank];
  const bool works = !status.waiting_since_ns;
  if (status.signs != heard.signs || works != heard.works) {
    if (heard.works) longest_ns_ = std::max(longest_ns_, heard.until_ns - heard.since_ns);
    heard = {status.signs, now_ns, now_ns, works};
  }
  heard.until_ns = now_ns;
  return least_ns_ > 0 && works && now_ns - heard.since_ns > limit_ns();
}

void ProgressWatch::resume(std::int64_t now_ns) {
  for (Heard& heard : ranks_) heard.since_ns = heard.until_ns = now_ns;
}

RankError ProgressWatch::error(const std::vector<RankStatus>& statuses, std::int64_t now_ns) const {
  std::vector<std::string> places;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    places.push_back(fmt::format("{}{} for {:.1f} s, {} begun",
                                 statuses.size() > 1 ? fmt::format("rank {} ", rank) : "",
                                 statuses[rank].phase, to_s(now_ns - ranks_[rank].since_ns),
                                 counted(statuses[rank].last.number, "call")));
  }
  return {FailureKind::other,
          {.what = "its own work does not get on",
           .got = list_text(places, "; "),
           .expected = fmt::format("a phase or a call that begins or ends within {:.1f} s",
                                   to_s(limit_ns())),
           .hint = "the model or a plugin hangs there; if its work is right and takes long, raise "
                   "`progress_timeout_s` under `world:` (0: no limit)"}};
}

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
