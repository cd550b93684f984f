// Spans of changes, what each block was for, and the sums.
#include "ddprun/dry/dry_phases.h"

#include <algorithm>
#include <string>

#include "ddprun/measure/memory_account.h"

namespace ddprun {

DryPhases::DryPhases(const DryMemory& memory) : memory_(memory) { PlaceListener::set(this); }
DryPhases::~DryPhases() { PlaceListener::set(nullptr); }

void DryPhases::open(Span span) {
  span.begin = memory_.changes().size();
  open_.push_back(spans_.size());
  spans_.push_back(span);
  from_.emplace_back(span.begin, spans_.size());
}

void DryPhases::close() {
  const std::size_t now = memory_.changes().size();
  spans_[open_.back()].end = now;
  open_.pop_back();
  from_.emplace_back(now, open_.empty() ? 0 : open_.back() + 1);
}

void DryPhases::begin(Phase phase) { open({.phase = phase}); }
void DryPhases::end(Phase) { close(); }
void DryPhases::on_forward_again(bool begins) {
  if (begins) {
    open({.phase = Phase::backward, .again = true});
  } else {
    close();
  }
}

MemoryCategory DryPhases::category(const DryMemory::Block& block) const {
  BlockLife life{.scope = block.category, .stays = !block.gone};
  const auto after =
      std::ranges::upper_bound(from_, block.made, {}, &std::pair<std::size_t, std::size_t>::first);
  const std::size_t innermost = after == from_.begin() ? 0 : std::prev(after)->second;
  if (block.made >= watched_from_ && innermost > 0) {
    const Span& span = spans_[innermost - 1];
    life.phase = span.phase;
    life.again = span.again;
    life.left = !block.gone || *block.gone >= span.end;
  }
  return category_of(life);
}

std::vector<PhaseAccount> DryPhases::peaks() const {
  std::vector<PhaseAccount> peaks;
  const auto account = [&peaks](Phase phase) -> PhaseAccount& {
    const auto known =
        std::ranges::find(peaks, std::string(to_string(phase)), &PhaseAccount::phase);
    if (known != peaks.end()) return *known;
    return peaks.emplace_back(PhaseAccount{to_string(phase), {}});
  };
  MemoryBytes now;
  std::size_t next = 0;
  const auto advance = [&] {
    const DryMemory::Change& change = memory_.changes()[next++];
    const DryMemory::Block& block = memory_.blocks()[change.block];
    now[category(block)] += change.came ? block.bytes : -block.bytes;
  };
  for (const Span& span : spans_) {
    const bool watched = span.begin >= watched_from_ || span.phase == Phase::setup;
    if (!watched || span.phase == Phase::step || span.again) continue;
    while (next < span.begin) advance();
    MemoryBytes& peak = account(span.phase).at_peak;
    if (now.sum() > peak.sum()) peak = now;
    while (next < span.end) {
      advance();
      if (now.sum() > peak.sum()) peak = now;
    }
  }
  return peaks;
}

}  // namespace ddprun
