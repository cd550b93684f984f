// The shared pages of each rank, its letters and counters, and waiting for them.
#include "ddprun/comm/backends/shm_channel.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/measure/environment.h"

namespace ddprun {

namespace {

constexpr std::uint32_t kHere = 0;
constexpr std::uint32_t kLeft = 1;
constexpr std::uint32_t kFailed = 2;

/// How long a rank stays awake before it sleeps. To be woken costs it 20 to 35 us on a virtual
/// machine, in which all ranks wait for it. Others that come are about as far as this rank, if
/// someone waits here as there: ranks that compute the same differ by some 100 us.
constexpr std::int64_t kAwaitedNs = 1'000'000;
/// The same where ranks share cores: those that still compute need them.
constexpr std::int64_t kSharedNs = 50'000;
/// If nobody waits, the rank's training thread needs the core. Who has come answers within the
/// first time, and who has not will take longer than the second.
constexpr std::int64_t kWithinNs = 20'000;
constexpr std::int64_t kGlanceNs = 2'000;
/// How often a sleeping rank looks whether the others are still there.
constexpr long kLookNs = 100'000'000;

/// Keeps a waiting thread awake for a time, and reads no clock if the wait is short.
class Patience {
 public:
  /// Who shares its core yields it: another rank may need it to answer.
  Patience(std::int64_t time_ns, bool yields) : time_ns_(time_ns), yields_(yields) {}

  /// Passes a moment. Returns false when the time is up.
  bool goes_on() {
    constexpr int kPauses = 16;  // some 0.2 to 1 us
    if (time_ns_ == 0) return false;
    if (yields_) {
      ::sched_yield();
    } else {
      _mm_pause();
      if (++pauses_ % kPauses != 0) return true;
    }
    const std::int64_t now = now_ns();
    if (end_ns_ == 0) end_ns_ = now + time_ns_;
    return now < end_ns_;
  }

 private:
  const std::int64_t time_ns_;
  const bool yields_;
  int pauses_ = 0;
  std::int64_t end_ns_ = 0;
};

/// The futex is not private, because processes share the word.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{0, kLookNs};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Counts wrap around.
bool reached(std::uint32_t count, std::uint32_t target) {
  return static_cast<std::int32_t>(count - target) >= 0;
}

/// A rank's text of the first round: its process and cores, and rank 0's file.
struct Introduction {
  pid_t pid = 0;
  int descriptor = -1;
  std::size_t bytes = 0;
  std::uint64_t token = 0;
  std::vector<int> cores = {};

  std::string text() const {
    std::string text = std::to_string(pid) + " " + std::to_string(descriptor) + " " +
                       std::to_string(bytes) + " " + std::to_string(token);
    for (const int core : cores) text += " " + std::to_string(core);
    return text;
  }
  static Introduction of(const std::string& text) {
    Introduction read;
    std::istringstream stream(text);
    stream >> read.pid >> read.descriptor >> read.bytes >> read.token;
    for (int core = 0; stream >> core;) read.cores.push_back(core);
    return read;
  }
};

/// Whether the ranks have as many cores as they are, and the CPU time for it.
bool have_own_cores(const std::vector<std::string>& introductions) {
  std::set<int> cores;
  for (const std::string& text : introductions) {
    for (const int core : Introduction::of(text).cores) cores.insert(core);
  }
  const double ranks = static_cast<double>(introductions.size());
  return static_cast<double>(cores.size()) >= ranks && cpu_quota().value_or(ranks) >= ranks;
}

constexpr const char* kRefused = "refused ";

}  // namespace

/// The number and the call are in one cache line: who sees the one has fetched the other.
struct alignas(64) ShmChannel::Letter {
  std::atomic<std::uint32_t> number;  ///< of the call, from 1
  ShmCall call;
  alignas(64) std::byte data[kLongestLetter];
};

struct alignas(4096) ShmChannel::RankPage {
  // Counters that this rank writes and others wait for, apart from what others write.
  alignas(64) std::atomic<std::uint32_t> posted;
  std::atomic<std::uint32_t> finished;
  std::atomic<std::uint32_t> state;
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< who wait for this rank's counts
  /// Alternating: a rank may begin the next call while others read its letter of this one. Once all
  /// have begun the next, they have read it, and it is free for the call after that.
  Letter letters[2];
};

struct alignas(4096) ShmChannel::Control {
  std::uint64_t token;  ///< tells this file from another that has the same number elsewhere
};

ShmChannel::ShmChannel(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                       std::chrono::milliseconds timeout)
    : place_(place), timeout_(timeout) {
  std::optional<MemoryFile> file;  // of rank 0; open until all have joined
  Introduction mine{.pid = ::getpid(), .cores = usable_cores()};
  std::string refusal;
  const auto attempt = [&refusal](const auto& step) {
    try {
      step();
    } catch (const std::runtime_error& failure) {
      refusal = kRefused + std::string(failure.what());
    }
  };
  if (place.rank == 0) {
    attempt([&] {
      mine.bytes =
          whole_pages(sizeof(Control) + place.size * (sizeof(RankPage) + 2 * kSlots * kSlotBytes));
      file.emplace(MemoryFile::create(mine.bytes, mine.bytes));
      memory_ = file->map(mine.bytes);
      mine.descriptor = file->descriptor();
      mine.token =
          (std::uint64_t{std::random_device{}()} << 32) ^ static_cast<std::uint64_t>(now_ns());
      control().token = mine.token;
    });
  }
  const auto texts = all_gather_object(*store, "introduction", place.rank, place.size,
                                       refusal.empty() ? mine.text() : refusal, timeout);
  throw_refusals(texts);
  own_cores_ = have_own_cores(texts);
  attempt([&] {
    if (place.rank != 0) join(texts[0]);
    watch_processes(texts);
  });
  throw_refusals(all_gather_object(*store, "joined", place.rank, place.size, refusal, timeout));
}

void ShmChannel::throw_refusals(const std::vector<std::string>& texts) const {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].starts_with(kRefused)) continue;
    throw ShmRefused(place_.name_of(static_cast<int>(rank)) + ": " +
                     texts[rank].substr(std::string(kRefused).size()));
  }
}

ShmChannel::~ShmChannel() { set_state(kLeft); }

void ShmChannel::join(const std::string& introduction) {
  const auto first = Introduction::of(introduction);
  memory_ = MemoryFile::open(first.pid, first.descriptor).map(first.bytes);
  if (control().token != first.token) {
    throw std::runtime_error("process " + std::to_string(first.pid) + " is not " +
                             place_.name_of(0) + " here: another host or PID namespace?");
  }
}

void ShmChannel::watch_processes(const std::vector<std::string>& introductions) {
  for (int peer = 0; peer < size(); ++peer) {
    pids_.push_back(Introduction::of(introductions[peer]).pid);
    Descriptor process;
    if (peer != rank()) {
      process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pids_.back(), 0)));
      if (process.get() < 0) throw std::runtime_error(system_error("pidfd_open"));
    }
    processes_.push_back(std::move(process));
  }
}

ShmChannel::Control& ShmChannel::control() const {
  return *reinterpret_cast<Control*>(memory_.data());
}

ShmChannel::RankPage& ShmChannel::page(int rank) const {
  return reinterpret_cast<RankPage*>(memory_.data() + sizeof(Control))[rank];
}

std::byte* ShmChannel::slot(int rank, std::int64_t chunk, int first) const {
  return memory_.data() + sizeof(Control) + size() * sizeof(RankPage) +
         (std::int64_t{rank} * 2 * kSlots + first + chunk % kSlots) * kSlotBytes;
}

std::byte* ShmChannel::staged(int rank, std::int64_t chunk) const { return slot(rank, chunk, 0); }

std::byte* ShmChannel::results(int rank, std::int64_t chunk) const {
  return slot(rank, chunk, kSlots);
}

ShmChannel::Letter& ShmChannel::letter(int rank, std::uint64_t call) const {
  return page(rank).letters[call % 2];
}

std::atomic<std::uint32_t>& ShmChannel::word(int rank, Count count) const {
  if (count == Count::letter) return letter(rank, calls_).number;
  return count == Count::posted ? page(rank).posted : page(rank).finished;
}

void ShmChannel::begin(const ShmCall& call) {
  deadline_ns_ = 0;
  letter(rank(), ++calls_).call = call;
  advance(Count::letter);
  wait_all(Count::letter, static_cast<std::uint32_t>(calls_));
}

const ShmCall& ShmChannel::call_of(int rank) const { return letter(rank, calls_).call; }
std::byte* ShmChannel::new_letter() const { return letter(rank(), calls_ + 1).data; }
const std::byte* ShmChannel::letter_of(int rank) const { return letter(rank, calls_).data; }

void ShmChannel::post() { advance(Count::posted); }
void ShmChannel::finish() {
  ++finished_;
  advance(Count::finished);
}

void ShmChannel::wait_posted(int lead) {
  wait_all(Count::posted, page(rank()).posted - static_cast<std::uint32_t>(lead));
}
void ShmChannel::wait_finished(int lead) {
  wait_all(Count::finished, page(rank()).finished - static_cast<std::uint32_t>(lead));
}

void ShmChannel::advance(Count count) {
  auto& own = word(rank(), count);
  // Sequentially consistent, here and in sleep_until. So either a waiter that goes to sleep sees
  // this change, or this sees the waiter.
  if (count == Count::letter) {
    own.store(static_cast<std::uint32_t>(calls_));
  } else {
    own.fetch_add(1);
  }
  if (page(rank()).sleepers.load() > 0) futex_wake_all(own);
}

std::int64_t ShmChannel::awake_ns(Count count) const {
  if (!own_cores_) return awaited_ ? kSharedNs : 0;
  if (awaited_) return kAwaitedNs;
  return count == Count::letter ? kGlanceNs : kWithinNs;
}

void ShmChannel::wait_all(Count count, std::uint32_t target) {
  Patience patience(awake_ns(count), /*yields=*/!own_cores_);
  for (int peer = 0; peer < size(); ++peer) {
    const auto& its = word(peer, count);
    bool arrived = reached(its.load(), target);
    while (!arrived && patience.goes_on()) arrived = reached(its.load(), target);
    if (!arrived) sleep_until(peer, count, target);
  }
}

void ShmChannel::sleep_until(int peer, Count count, std::uint32_t target) {
  const auto& its = word(peer, count);
  auto& sleepers = page(peer).sleepers;
  sleepers.fetch_add(1);
  try {
    for (std::uint32_t seen; !reached(seen = its.load(), target);) {
      if (deadline_ns_ == 0) deadline_ns_ = now_ns() + std::chrono::nanoseconds(timeout_).count();
      futex_wait(its, seen);
      if (!reached(its.load(), target)) check_peers(count, target);
    }
  } catch (...) {
    sleepers.fetch_sub(1);
    throw;
  }
  sleepers.fetch_sub(1);
}

void ShmChannel::check_peers(Count count, std::uint32_t target) const {
  const auto missing = [&](int peer) { return !reached(word(peer, count).load(), target); };
  if (aborted_) throw std::runtime_error("the process group was closed");
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    pollfd process{.fd = processes_[peer].get(), .events = POLLIN, .revents = 0};
    if (::poll(&process, 1, 0) == 1 && missing(peer)) {
      throw PeerGoneError(cause(place_.name_of(peer) + " is gone: process " +
                                std::to_string(pids_[peer]) + " has ended"));
    }
  }
  // This comes last, because a rank that failed or left may have done so only because another one
  // ended.
  for (int peer = 0; peer < size(); ++peer) {
    const std::uint32_t state = page(peer).state;
    if (state == kHere || !missing(peer)) continue;
    throw PeerGoneError(
        cause(place_.name_of(peer) +
              (state == kLeft ? " has left the group" : " gave up: a collective failed there")));
  }
  for (int peer = 0; peer < size() && now_ns() > deadline_ns_; ++peer) {
    if (!missing(peer)) continue;
    throw TimeoutError(cause(place_.name_of(peer) + " did not come: timed out after " +
                             std::to_string(timeout_.count()) + " ms"));
  }
}

void ShmChannel::wake_all(int rank) const {
  for (const Letter& each : page(rank).letters) futex_wake_all(each.number);
  futex_wake_all(page(rank).posted);
  futex_wake_all(page(rank).finished);
}

void ShmChannel::set_state(std::uint32_t state) {
  page(rank()).state = state;
  wake_all(rank());
}

void ShmChannel::mark_failed() { set_state(kFailed); }

void ShmChannel::abort() {
  aborted_ = true;
  for (int peer = 0; peer < size(); ++peer) wake_all(peer);
}

}  // namespace ddprun
