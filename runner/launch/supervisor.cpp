// The parent's loop: messages of the ranks, their deaths, signals, deadlines.
#include "runner/launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/base/child_process.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/store/store_server.h"
#include "runner/launch/memory_words.h"
#include "runner/launch/progress_watch.h"

namespace ddprun {

namespace {

constexpr std::int64_t kRootCauseGraceNs = 500'000'000;
constexpr std::int64_t kTerminateGraceNs = 2'000'000'000;
/// By how much a rank may outstay the limit of a wait, which it should end itself.
constexpr std::int64_t kSilenceGraceNs = 2'000'000'000;
/// How often the parent looks at what its ranks do.
constexpr std::int64_t kLookNs = 500'000'000;

class Supervisor {
 public:
  Supervisor(const WorldConfig& world, SignalWatch& signals, const RankObserver& observer,
             double end_grace_s)
      : timeout_s_(world.comm.timeout_s),
        end_grace_ns_(static_cast<std::int64_t>(end_grace_s * 1e9)),
        signals_(signals),
        observer_(observer),
        board_(static_cast<int>(world.size)),
        progress_(board_.ranks(), world.progress_timeout_s) {}

  ~Supervisor() {
    signal_ranks(SIGKILL);
    for (Rank& rank : ranks_) {
      if (rank.alive) waitpid(rank.pid, nullptr, 0);
      if (rank.fd >= 0) close(rank.fd);
    }
  }

  Outcome run(const RankBody& body) {
    start(board_.ranks(), body);
    while (std::ranges::any_of(ranks_, [](const Rank& r) { return r.alive; })) {
      wait_for_event();
      handle_signals();
      for (Rank& rank : ranks_) read_events(rank);
      reap();
      check_waits();
      check_deadlines();
    }
    return outcome();
  }

 private:
  struct Rank {
    int rank = 0;
    pid_t pid = -1;
    int fd = -1;
    bool alive = true;
    bool done = false;    ///< said that it ended well
    bool failed = false;  ///< said that it failed, or ended as if
    int stopped_by = 0;   ///< the signal, while it is stopped
    std::int64_t stopped_ns = 0;
    std::string pending;  ///< an incomplete line
  };

  void start(int world_size, const RankBody& body) {
    std::vector<StoreSockets> sockets = make_store_sockets(world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      RankInfo info;
      info.rank = info.local_rank = rank;
      info.world_size = info.local_size = world_size;
      info.sockets = std::make_shared<StoreSockets>(std::move(sockets[rank]));
      const auto close_others = [&] {
        sockets.clear();  // else a rank that has died would still seem to be there
        for (const Rank& other : ranks_) close(other.fd);
      };
      const ForkedRank forked = fork_rank(info, body, signals_, board_, close_others);
      Rank& started = ranks_.emplace_back();
      started.rank = rank;
      started.pid = forked.pid;
      started.fd = forked.fd;
    }
  }

  void wait_for_event() {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (rank.fd >= 0) fds.push_back({rank.fd, POLLIN, 0});
    }
    const std::int64_t before_ns = now_ns();
    const std::int64_t deadline_ns = next_deadline();
    const std::int64_t limit_ns =
        deadline_ns == 0 ? kLookNs : std::clamp<std::int64_t>(deadline_ns - before_ns, 0, kLookNs);
    // EINTR: the loop looks at everything anyway.
    poll(fds.data(), fds.size(), static_cast<int>(limit_ns / 1'000'000 + 1));
    // This process was stopped as well (Ctrl-Z): what ranks did meanwhile is no fault of theirs.
    if (now_ns() - before_ns <= limit_ns + kSilenceGraceNs) return;
    resumed_ns_ = now_ns();
    progress_.resume(resumed_ns_);
  }

  void handle_signals() {
    const auto [signal, save] = signals_.take();
    if (save) signal_ranks(SIGUSR1);
    if (signal == 0) return;
    if (interrupted_by_ != 0) {
      signal_ranks(SIGKILL);  // asked twice: at once
      return;
    }
    interrupted_by_ = signal;
    terminate(end_grace_ns_);
  }

  void read_events(Rank& rank) {
    char buffer[65536];
    while (rank.fd >= 0) {
      const ssize_t n = read(rank.fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;  // EAGAIN: no more for now
      if (n == 0) {
        close(std::exchange(rank.fd, -1));
        return;
      }
      // A line may be megabytes (a result): look for its end in what is new only.
      std::size_t from = rank.pending.size();
      rank.pending.append(buffer, static_cast<std::size_t>(n));
      std::size_t begin = 0;
      for (std::size_t end; (end = rank.pending.find('\n', from)) != std::string::npos;) {
        handle_event(rank, rank.pending.substr(begin, end - begin));
        begin = from = end + 1;
      }
      rank.pending.erase(0, begin);
    }
  }

  void handle_event(Rank& rank, const std::string& line) {
    nlohmann::json event = parse_json(line);
    switch (choice_of<RankEvent>(event.at("event").get<std::string>()).value()) {
      case RankEvent::progress:
        observer_.on_progress({event.at("step"), event.at("steps"), event.at("figures")});
        break;
      case RankEvent::log:
        observer_.on_log(rank.rank, event.at("level"), event.at("text"));
        break;
      case RankEvent::error:
        fail(rank, {choice_of<FailureKind>(event.at("kind").get<std::string>()).value(),
                    event.at("text").get<ErrorText>()});
        break;
      case RankEvent::result:
        result_ = std::move(event.at("result"));
        break;
      case RankEvent::done:
        rank.done = true;
        break;
    }
  }

  void reap() {
    for (Rank& rank : ranks_) {
      int status = 0;
      constexpr int kEverything = WNOHANG | WUNTRACED | WCONTINUED;
      while (rank.alive && waitpid(rank.pid, &status, kEverything) == rank.pid) {
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
          rank.stopped_by = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
          rank.stopped_ns = now_ns();
        } else {
          on_exit(rank, status);
        }
      }
    }
  }

  void on_exit(Rank& rank, int status) {
    rank.alive = false;
    rank.stopped_by = 0;
    read_events(rank);  // its last words
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0 && rank.done;
    if (clean || terminating()) return;
    fail(rank, describe_exit(status, kernel_memory_kills() > memory_kills_before_));
  }

  void fail(Rank& rank, RankError error) {
    if (rank.failed || terminating()) return;
    rank.failed = true;
    const FailureKind kind = error.kind;
    if (!may_be_a_peers_fault(kind)) {
      own_fault_ = RankFailure{rank.rank, std::move(error)};
      terminate();
      return;
    }
    // A rank that unwinds closes its connections before it has said why.
    const bool echo = first_failure_ && first_failure_->error.kind == FailureKind::peer_gone;
    if (!first_failure_ || (echo && kind != FailureKind::peer_gone)) {
      first_failure_ = RankFailure{rank.rank, std::move(error)};
    }
    if (grace_deadline_ns_ == 0) grace_deadline_ns_ = now_ns() + kRootCauseGraceNs;
    // Now, while the others still wait: soon they will all have given up.
    if (kind == FailureKind::timeout && !late_) late_ = late_rank();
  }

  std::optional<RankFailure> late_rank() const {
    const auto watched = mapped(ranks_, [this](const Rank& rank) {
      return WatchedRank{board_.status(rank.rank), rank.stopped_by, rank.failed || !rank.alive};
    });
    return find_late_rank(watched, timeout_s_);
  }

  /// Ends the run if a rank is stopped, or waits, for longer than ranks may wait for one another.
  void check_waits() {
    const auto limit_ns = static_cast<std::int64_t>(timeout_s_ * 1e9);
    const std::int64_t now = now_ns();
    for (const Rank& rank : ranks_) {
      if (!rank.alive || rank.done || terminating() || grace_deadline_ns_ != 0) continue;
      const RankStatus status = board_.status(rank.rank);
      const auto lasts = [&](std::int64_t since_ns, std::int64_t at_most_ns) {
        return now - std::max(since_ns, resumed_ns_) > at_most_ns;
      };
      const bool stopped = rank.stopped_by != 0 && lasts(rank.stopped_ns, limit_ns);
      const bool silent =
          status.waiting_since_ns && lasts(*status.waiting_since_ns, limit_ns + kSilenceGraceNs);
      if (rank.stopped_by == 0 && progress_.is_silent(rank.rank, status, now)) {
        own_fault_ = RankFailure{rank.rank, progress_.error(statuses(), now)};
        terminate();
        return;
      }
      if (!stopped && !silent) continue;
      late_ = late_rank();
      if (!late_) own_fault_ = RankFailure{rank.rank, waits_too_long(rank)};
      terminate();
    }
  }

  std::vector<RankStatus> statuses() const {
    return mapped(ranks_, [this](const Rank& rank) { return board_.status(rank.rank); });
  }

  RankError waits_too_long(const Rank& rank) const {
    const RankStatus status = board_.status(rank.rank);
    if (std::ranges::any_of(ranks_, [](const Rank& each) { return near_memory_limit(each.pid); })) {
      return {FailureKind::out_of_memory,
              {.what = "out of memory: it waits for the other ranks, and a rank is at its limit of "
                       "private memory (world.memory_limit_gb, ulimit -d)",
               .got = status.phase + ", which does not end",
               .expected = "that all there is at a time fits"}};
    }
    return {FailureKind::other,
            {.what = "it waits for the other ranks, and its time limit does not end that",
             .got = status.phase + ", call " + std::to_string(status.last.number) + " (" +
                    status.last.text() + ")",
             .expected = "every wait ended by `timeout_s` under `world:`",
             .hint = "the backend hangs: another `backend:` under `world:` may not"}};
  }

  /// A stop may be seen after the time-outs that it made.
  void end_grace() {
    const bool stopped =
        std::ranges::any_of(ranks_, [](const Rank& r) { return r.stopped_by != 0; });
    if (stopped && first_failure_->error.kind == FailureKind::timeout) late_ = late_rank();
    terminate();
  }

  bool terminating() const { return kill_deadline_ns_ != 0; }

  void terminate(std::int64_t grace_ns = kTerminateGraceNs) {
    grace_deadline_ns_ = 0;
    kill_deadline_ns_ = now_ns() + grace_ns;
    signal_ranks(SIGTERM);
    for (const Rank& rank : ranks_) {
      if (rank.stopped_by != 0) kill(rank.pid, SIGKILL);  // nothing else ends it
    }
  }

  void signal_ranks(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.alive) kill(rank.pid, signal);
    }
  }

  void check_deadlines() {
    const std::int64_t now = now_ns();
    if (grace_deadline_ns_ != 0 && now >= grace_deadline_ns_) end_grace();
    if (kill_deadline_ns_ != 0 && now >= kill_deadline_ns_) {
      signal_ranks(SIGKILL);
      kill_deadline_ns_ = now + kTerminateGraceNs;
    }
  }

  std::int64_t next_deadline() const {
    return kill_deadline_ns_ != 0 ? kill_deadline_ns_ : grace_deadline_ns_;
  }

  /// Of what is known, what explains the rest.
  std::optional<RankFailure> cause() const {
    if (own_fault_) return own_fault_;
    if (first_failure_) {
      if (auto error = different_calls()) return RankFailure{0, {FailureKind::comm, error->text()}};
    }
    return late_ ? late_ : first_failure_;
  }

  /// A rank that leaves because of it takes its connections along: a peer may be the first to fail.
  std::optional<CommError> different_calls() const {
    return ddprun::different_calls(
        mapped(ranks_, [this](const Rank& rank) { return board_.recent_calls(rank.rank); }));
  }

  Outcome outcome() {
    if (interrupted_by_ != 0) {
      const bool done = std::ranges::all_of(ranks_, &Rank::done);
      return {Outcome::Status::interrupted, "interrupted by signal " + signal_text(interrupted_by_),
              interrupted_by_, done ? std::move(result_) : nlohmann::json()};
    }
    if (const auto failure = cause()) {
      const bool memory = failure->error.kind == FailureKind::out_of_memory;
      return {memory ? Outcome::Status::out_of_memory : Outcome::Status::failed,
              reason_of(failure->error, failure->rank, board_.ranks(), ranks_[failure->rank].pid),
              0,
              {}};
    }
    return {Outcome::Status::ok, {}, 0, std::move(result_)};
  }

  const double timeout_s_;
  const std::int64_t end_grace_ns_;
  SignalWatch& signals_;
  const RankObserver& observer_;
  LaunchBoard board_;
  ProgressWatch progress_;
  const std::int64_t memory_kills_before_ = kernel_memory_kills();
  std::vector<Rank> ranks_;
  std::optional<RankFailure> own_fault_;      ///< no peer explains it
  std::optional<RankFailure> first_failure_;  ///< of those that a peer may explain
  std::int64_t grace_deadline_ns_ = 0;
  std::int64_t kill_deadline_ns_ = 0;
  std::optional<RankFailure> late_;  ///< when the first wait was given up
  std::int64_t resumed_ns_ = 0;
  int interrupted_by_ = 0;
  nlohmann::json result_;
};

/// A run whose ranks this process could not start, or not watch: no descriptor, process or memory
/// is left. It is that run's failure alone.
Outcome not_started(const std::exception& error, std::int64_t world_size) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const ErrorText text =
      own != nullptr
          ? own->text()
          : ErrorText{.what = "the ranks could not be started",
                      .where = counted(world_size, "rank") + " on this host",
                      .got = error.what(),
                      .expected = "a process and a pipe for each rank",
                      .hint =
                          "fewer ranks, or higher limits: `ulimit -n` of descriptors, `ulimit "
                          "-u` of processes"};
  return {Outcome::Status::failed, Error(text).what(), 0, {}};
}

}  // namespace

Outcome run_ranks(const WorldConfig& world, const RankBody& body, SignalWatch& signals,
                  const RankObserver& observer, double end_grace_s) {
  try {
    return Supervisor(world, signals, observer, end_grace_s).run(body);
  } catch (const std::exception& error) {
    return not_started(error, world.size);
  }
}

}  // namespace ddprun
