// Compares each rank's count of signs with what it was.
#include "runner/launch/progress_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/clock.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// By how much a silence may be longer than the longest before.
constexpr std::int64_t kTimesLongest = 20;

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
    places.push_back(fmt::format("{}{} for {:.1f} s, {} calls begun",
                                 statuses.size() > 1 ? fmt::format("rank {} ", rank) : "",
                                 statuses[rank].phase, to_s(now_ns - ranks_[rank].since_ns),
                                 statuses[rank].last.number));
  }
  return {FailureKind::other,
          {.what = "its own work does not get on",
           .got = list_text(places, "; "),
           .expected = fmt::format("a phase or a call that begins or ends within {:.1f} s",
                                   to_s(limit_ns())),
           .hint = "the model or a plugin hangs there; if its work is right and takes long, raise "
                   "`progress_timeout_s` under `world:` (0: no limit)"}};
}

}  // namespace ddprun
