// One slot a rank, which the rank alone writes, without locks.
#include "ddprun/comm/store/launch_board.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace ddprun {

namespace {

/// Calls that are kept: more than a strategy has under way at a time.
constexpr std::uint64_t kKept = 64;

/// What a rank does outside of phases: literals of this library, as phases' names are, so they are
/// at one address in all processes that were forked from one.
constexpr const char* kCheck = "the check before step 0";
constexpr const char* kAfterStep = "after step";

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const std::size_t size = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

/// Two ranks made calls of one number that differ. `phase`: where `rank` was.
CommError different_calls_error(const std::string& phase, int rank, const CollectiveCall& call,
                                int other_rank, const CollectiveCall& other) {
  return CommError({.what = "the ranks called different collectives",
                    .where = "call " + std::to_string(call.number) + " of each, " + phase +
                             " of rank " + std::to_string(rank),
                    .got = "rank " + std::to_string(rank) + ": " + call.text() + "; rank " +
                           std::to_string(other_rank) + ": " + other.text(),
                    .expected = "the same calls in the same order on every rank",
                    .hint = "one of the two left a collective out, or made one of its own: see the "
                            "strategy"});
}

/// Whether kind, bytes and label are the same.
bool same_call(const CollectiveCall& a, const CollectiveCall& b) {
  // What is behind a text's end is zero (make_call).
  return a.bytes == b.bytes && std::memcmp(a.kind, b.kind, sizeof(a.kind)) == 0 &&
         std::memcmp(a.label, b.label, sizeof(a.label)) == 0;
}

/// The first call of `a` that `b` made otherwise.
std::optional<std::pair<CollectiveCall, CollectiveCall>> first_difference(const RankCalls& a,
                                                                          const RankCalls& b) {
  for (const CollectiveCall& call : a.calls) {
    const auto other = std::ranges::find(b.calls, call.number, &CollectiveCall::number);
    if (other != b.calls.end() && !same_call(call, *other)) return {{call, *other}};
  }
  return {};
}

LaunchBoard* own_board = nullptr;
int own_rank = -1;

}  // namespace

CollectiveCall make_call(std::uint64_t number, std::string_view kind, std::int64_t bytes,
                         std::string_view label) {
  CollectiveCall call{.number = number, .bytes = bytes};
  copy_text(call.kind, kind);
  copy_text(call.label, label);
  return call;
}

std::optional<CommError> different_calls(const std::vector<RankCalls>& ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (const auto calls = first_difference(ranks[0], ranks[rank])) {
      return different_calls_error(ranks[0].phase, 0, calls->first, static_cast<int>(rank),
                                   calls->second);
    }
  }
  return {};
}

/// A value is written by its rank alone.
struct LaunchBoard::Slot {
  /// A call, and its number, which is 0 while the call is written. Who reads one number before and
  /// after has read that call. Reading writes nothing, so the line stays with whom it belongs to.
  class alignas(64) Entry {
   public:
    void clear() { number_ = 0; }
    void write(const CollectiveCall& call) {
      number_.store(0, std::memory_order_relaxed);
      const Words words = std::bit_cast<Words>(call);
      // Each releases the 0: who reads a new word does not read the old number afterwards.
      for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
      // Sequentially consistent: of two ranks one at least sees the other's call.
      number_ = call.number;
    }
    std::optional<CollectiveCall> read(std::uint64_t number) const {
      if (number_ != number) return {};
      Words words;
      for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (number_.load(std::memory_order_relaxed) != number) return {};
      return std::bit_cast<CollectiveCall>(words);
    }

   private:
    static constexpr std::size_t kWords = sizeof(CollectiveCall) / sizeof(std::uint64_t);
    using Words = std::array<std::uint64_t, kWords>;
    std::atomic<std::uint64_t> number_;
    std::array<std::atomic<std::uint64_t>, kWords> words_;
  };
  std::atomic<const char*> phase;
  std::atomic<std::int64_t> steps;
  std::atomic<int> waits;  ///< that are under way
  std::atomic<std::int64_t> wait_begin_ns;
  std::atomic<std::int64_t> progress_ns;
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> signs;
  Entry entries[kKept];
};

std::string CollectiveCall::text() const {
  std::string text = kind;
  if (label[0] != '\0') text += " '" + std::string(label) + "'";
  return bytes == 0 ? text : text + " of " + std::to_string(bytes) + " bytes";
}

LaunchBoard::LaunchBoard(int ranks)
    : ranks_(ranks),
      memory_(::mmap(nullptr, ranks * sizeof(Slot), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  if (memory_ == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "memory that ranks share");
  }
}

LaunchBoard::~LaunchBoard() { ::munmap(memory_, ranks_ * sizeof(Slot)); }

LaunchBoard::Slot& LaunchBoard::slot(int rank) const { return static_cast<Slot*>(memory_)[rank]; }

void LaunchBoard::attach(int rank) {
  Slot& own = slot(rank);
  own.phase = nullptr;
  own.steps = 0;
  own.waits = 0;
  own.wait_begin_ns = 0;
  own.progress_ns = 0;
  own.calls = 0;
  own.signs = 0;
  for (Slot::Entry& entry : own.entries) entry.clear();
  own_board = this;
  own_rank = rank;
}

RankStatus LaunchBoard::status(int rank) const {
  const Slot& from = slot(rank);
  RankStatus status;
  const char* const phase = from.phase;
  const std::string step = std::to_string(from.steps - 1);
  if (phase == nullptr) {
    status.phase = "at the start";
  } else if (phase == kAfterStep) {
    status.phase = "after step " + step;
  } else {
    status.phase = std::string("in ") + phase;
    if (phase == to_string(Phase::step)) {
      status.phase += " " + step;
    } else if (from.steps > 0) {
      status.phase += " of step " + step;
    }
  }
  if (from.waits > 0) {
    status.waiting_since_ns = std::max(from.wait_begin_ns.load(), from.progress_ns.load());
  }
  const std::uint64_t calls = from.calls;
  if (const auto last = call(rank, calls)) status.last = *last;
  status.last.number = calls;
  status.signs = from.signs + calls;
  return status;
}

std::optional<CollectiveCall> LaunchBoard::call(int rank, std::uint64_t number) const {
  if (number == 0) return {};
  return slot(rank).entries[number % kKept].read(number);
}

RankCalls LaunchBoard::recent_calls(int rank) const {
  RankCalls recent{status(rank).phase, {}};
  const std::uint64_t last = slot(rank).calls;
  for (std::uint64_t number = last < kKept ? 1 : last - kKept + 1; number <= last; ++number) {
    if (const auto found = call(rank, number)) recent.calls.push_back(*found);
  }
  return recent;
}

LaunchBoard::Wait::Wait(std::int64_t since_ns) {
  if (own_board == nullptr) return;
  Slot& own = own_board->slot(own_rank);
  if (own.waits == 0) own.wait_begin_ns = since_ns;
  ++own.waits;  // last: who sees it finds the time
  ++own.signs;
}

LaunchBoard::Wait::~Wait() {
  if (own_board != nullptr) --own_board->slot(own_rank).waits;
}

void LaunchBoard::PhaseWriter::begin(Phase phase) {
  if (own_board == nullptr) return;
  Slot& own = own_board->slot(own_rank);
  own.phase = to_string(phase);
  if (phase == Phase::step) ++own.steps;
  ++own.signs;
}

void LaunchBoard::PhaseWriter::end(Phase phase) {
  if (own_board == nullptr) return;
  Slot& own = own_board->slot(own_rank);
  own.phase = own.steps == 0 ? kCheck : phase == Phase::step ? kAfterStep : to_string(Phase::step);
  ++own.signs;
}

void LaunchBoard::note_progress(std::int64_t at_ns) {
  if (own_board == nullptr) return;
  Slot& own = own_board->slot(own_rank);
  own.progress_ns = at_ns;
  ++own.signs;
}

void LaunchBoard::announce(int size, std::string_view kind, std::int64_t bytes,
                           std::string_view label) {
  if (own_board == nullptr || own_board->ranks_ != size) return;
  Slot& own = own_board->slot(own_rank);
  const CollectiveCall call = make_call(own.calls + 1, kind, bytes, label);
  own.entries[call.number % kKept].write(call);
  own.calls.store(call.number, std::memory_order_release);
  const auto compare_with = [&](int peer) {
    const auto other = own_board->call(peer, call.number);
    if (!other || same_call(call, *other)) return;
    throw different_calls_error(own_board->status(own_rank).phase, own_rank, call, peer, *other);
  };
  const int next = (own_rank + 1) % size;
  const int previous = (own_rank + size - 1) % size;
  compare_with(next);
  if (previous != next) compare_with(previous);
}

}  // namespace ddprun
