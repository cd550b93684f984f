// The shared page of each rank, its counters, and waiting for them.
#include "ddprun/comm/backends/shm_channel.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>
#include <optional>
#include <random>
#include <sstream>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/comm_failure.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ddprun {

namespace {

constexpr std::uint32_t kHere = 0;
constexpr std::uint32_t kLeft = 1;
constexpr std::uint32_t kFailed = 2;

/// About how long a rank spins before it sleeps. A running peer answers within that time, and a
/// peer that shares this core needs the core after it.
constexpr std::int64_t kSpinNs = 20'000;
/// How often a sleeping rank looks whether the others are still there.
constexpr long kLookNs = 100'000'000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

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

/// A rank's text of the first round: its process, and rank 0's file.
struct Introduction {
  pid_t pid = 0;
  int descriptor = -1;
  std::size_t bytes = 0;
  std::uint64_t token = 0;

  std::string text() const {
    return std::to_string(pid) + " " + std::to_string(descriptor) + " " + std::to_string(bytes) +
           " " + std::to_string(token);
  }
  static Introduction of(const std::string& text) {
    Introduction read;
    std::istringstream(text) >> read.pid >> read.descriptor >> read.bytes >> read.token;
    return read;
  }
};

constexpr const char* kRefused = "refused ";

}  // namespace

struct alignas(4096) ShmChannel::RankPage {
  // Counters that this rank writes and others wait for, apart from what others write.
  alignas(64) std::atomic<std::uint32_t> posted;
  std::atomic<std::uint32_t> finished;
  std::atomic<std::uint32_t> state;
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< who wait for this rank's counts
  alignas(64) ShmCall calls[2];  ///< alternating: a rank may begin the next while another reads
};

struct alignas(4096) ShmChannel::Control {
  std::uint64_t token;  ///< tells this file from another that has the same number elsewhere
};

ShmChannel::ShmChannel(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                       std::chrono::milliseconds timeout)
    : place_(place), timeout_(timeout) {
  std::optional<MemoryFile> file;  // of rank 0; open until all have joined
  Introduction mine{.pid = ::getpid()};
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

std::byte* ShmChannel::slot(int rank, int index) const {
  return memory_.data() + sizeof(Control) + size() * sizeof(RankPage) +
         (std::int64_t{rank} * 2 * kSlots + index) * kSlotBytes;
}

std::byte* ShmChannel::staged(int rank, std::int64_t chunk) const {
  return slot(rank, static_cast<int>(chunk % kSlots));
}

std::byte* ShmChannel::results(int rank, std::int64_t chunk) const {
  return slot(rank, kSlots + static_cast<int>(chunk % kSlots));
}

void ShmChannel::begin(const ShmCall& call) {
  deadline_ns_ = now_ns() + std::chrono::nanoseconds(timeout_).count();
  page(rank()).calls[++calls_ % 2] = call;
  post();
  wait_posted();
}

const ShmCall& ShmChannel::call_of(int rank) const { return page(rank).calls[calls_ % 2]; }

void ShmChannel::post() { advance(&RankPage::posted); }
void ShmChannel::finish() { advance(&RankPage::finished); }

void ShmChannel::wait_posted(int lead) {
  wait_all(&RankPage::posted, page(rank()).posted - static_cast<std::uint32_t>(lead));
}
void ShmChannel::wait_finished(int lead) {
  wait_all(&RankPage::finished, page(rank()).finished - static_cast<std::uint32_t>(lead));
}

void ShmChannel::advance(Count count) {
  // Sequentially consistent, here and in wait_all. So either a waiter that goes to sleep sees this
  // change, or this sees the waiter.
  (page(rank()).*count).fetch_add(1);
  if (page(rank()).sleepers.load() > 0) futex_wake_all(page(rank()).*count);
}

void ShmChannel::wait_all(Count count, std::uint32_t target) {
  const std::int64_t spin_end_ns = now_ns() + kSpinNs;
  for (int peer = 0; peer < size(); ++peer) {
    RankPage& other = page(peer);
    const auto arrived = [&] { return reached((other.*count).load(), target); };
    while (!arrived() && now_ns() < spin_end_ns) pause();
    if (arrived()) continue;
    other.sleepers.fetch_add(1);
    try {
      for (std::uint32_t seen; !reached(seen = (other.*count).load(), target);) {
        futex_wait(other.*count, seen);
        if (!arrived()) check_peers(count, target);
      }
    } catch (...) {
      other.sleepers.fetch_sub(1);
      throw;
    }
    other.sleepers.fetch_sub(1);
  }
}

void ShmChannel::check_peers(Count count, std::uint32_t target) const {
  const auto missing = [&](int peer) { return !reached((page(peer).*count).load(), target); };
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

void ShmChannel::set_state(std::uint32_t state) {
  page(rank()).state = state;
  futex_wake_all(page(rank()).posted);
  futex_wake_all(page(rank()).finished);
}

void ShmChannel::mark_failed() { set_state(kFailed); }

void ShmChannel::abort() {
  aborted_ = true;
  for (int peer = 0; peer < size(); ++peer) {
    futex_wake_all(page(peer).posted);
    futex_wake_all(page(peer).finished);
  }
}

}  // namespace ddprun
