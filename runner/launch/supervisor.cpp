// The parent's loop: messages of the ranks, their deaths, signals, deadlines.
#include "runner/launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ddprun/base/clock.h"
#include "runner/launch/memory_words.h"

namespace ddprun {

namespace {

constexpr std::int64_t kRootCauseGraceNs = 500'000'000;
constexpr std::int64_t kTerminateGraceNs = 2'000'000'000;

constexpr const char* kEndsByItself = "every rank ends by itself, and says how";

/// Why a rank was killed. `memory_killed`: the kernel has killed a process for want of memory
/// meanwhile.
RankError describe_signal(int signal, bool memory_killed) {
  const std::string name = std::to_string(signal) + " (" + strsignal(signal) + ")";
  if (signal != SIGKILL) {
    return {FailureKind::died,
            {.what = "killed by signal " + name,
             .got = "no error message",
             .expected = kEndsByItself,
             .hint = "it crashed, most likely in a plugin: run the debug or asan preset"}};
  }
  if (memory_killed) {
    return {FailureKind::out_of_memory,
            {.what = "killed by signal " + name + ", by the kernel, whose memory ran out",
             .got = "the kernel counted a process that it killed for want of memory",
             .expected = kEndsByItself,
             .hint = "a smaller batch or model, or fewer ranks"}};
  }
  return {FailureKind::died,
          {.what = "killed by signal " + name,
           .got = "the kernel says nothing of memory that ran out",
           .expected = kEndsByItself,
           .hint = "who killed it? A user, a launcher or a container's limit can"}};
}

/// Why a rank ended that did not say so.
RankError describe_exit(int status, bool memory_killed) {
  if (WIFSIGNALED(status)) return describe_signal(WTERMSIG(status), memory_killed);
  return {FailureKind::died,
          {.what = "ended before it was done",
           .got = "exit status " + std::to_string(WEXITSTATUS(status)) + ", no error message",
           .expected = kEndsByItself,
           .hint = "something called exit() in it, perhaps a plugin"}};
}

class Supervisor {
 public:
  Supervisor(SignalWatch& signals, const RankObserver& observer)
      : signals_(signals), observer_(observer) {}

  ~Supervisor() {
    signal_ranks(SIGKILL);
    for (Rank& rank : ranks_) {
      if (rank.alive) waitpid(rank.pid, nullptr, 0);
      if (rank.fd >= 0) close(rank.fd);
    }
  }

  Outcome run(int world_size, const RankBody& body) {
    start(world_size, body);
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.alive; })) {
      wait_for_event();
      handle_signals();
      for (Rank& rank : ranks_) read_events(rank);
      reap();
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
    bool failed = false;  ///< its failure is in failures_
    std::string pending;  ///< an incomplete line
  };
  struct Failure {
    int rank;
    RankError error;
  };

  void start(int world_size, const RankBody& body) {
    auto [listen_fd, port] = listen_on_free_port();
    try {
      for (int rank = 0; rank < world_size; ++rank) {
        RankInfo info;
        info.rank = info.local_rank = rank;
        info.world_size = info.local_size = world_size;
        info.master_port = port;
        info.listen_fd = rank == 0 ? listen_fd : -1;
        std::vector<int> not_the_childs;
        for (const Rank& other : ranks_) not_the_childs.push_back(other.fd);
        if (rank != 0) not_the_childs.push_back(listen_fd);
        const ForkedRank forked = fork_rank(info, body, signals_, not_the_childs);
        ranks_.push_back({rank, forked.pid, forked.fd, true, false, false, {}});
      }
    } catch (...) {
      close(listen_fd);
      throw;
    }
    close(listen_fd);
  }

  void wait_for_event() {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (rank.fd >= 0) fds.push_back({rank.fd, POLLIN, 0});
    }
    int timeout_ms = -1;
    if (const std::int64_t deadline = next_deadline(); deadline != 0) {
      timeout_ms =
          static_cast<int>(std::max<std::int64_t>(0, (deadline - now_ns()) / 1'000'000 + 1));
    }
    poll(fds.data(), fds.size(), timeout_ms);  // EINTR: the loop looks at everything anyway
  }

  void handle_signals() {
    const int signal = signals_.take();
    if (signal == 0) return;
    if (interrupted_by_ != 0) {
      signal_ranks(SIGKILL);  // asked twice: at once
      return;
    }
    interrupted_by_ = signal;
    terminate();
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
    nlohmann::json event = nlohmann::json::parse(line);
    switch (choice_of<RankEvent>(event.at("event").get<std::string>()).value()) {
      case RankEvent::progress: {
        const nlohmann::json& loss = event.at("loss");  // null: not a number
        observer_.on_progress({event.at("step"), event.at("steps"),
                               loss.is_null() ? std::nan("") : loss.get<double>(),
                               event.at("step_ms")});
        break;
      }
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
      if (!rank.alive || waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
      rank.alive = false;
      read_events(rank);  // its last words
      const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0 && rank.done;
      if (clean || terminating()) continue;
      fail(rank, describe_exit(status, kernel_memory_kills() > memory_kills_before_));
    }
  }

  void fail(Rank& rank, RankError error) {
    if (rank.failed || terminating()) return;
    rank.failed = true;
    const bool may_be_a_peers_fault = error.kind == FailureKind::comm;
    failures_.push_back({rank.rank, std::move(error)});
    if (!may_be_a_peers_fault) {
      blamed_ = failures_.size() - 1;
      terminate();
    } else if (grace_deadline_ns_ == 0) {
      grace_deadline_ns_ = now_ns() + kRootCauseGraceNs;
    }
  }

  bool terminating() const { return kill_deadline_ns_ != 0; }

  void terminate() {
    grace_deadline_ns_ = 0;
    kill_deadline_ns_ = now_ns() + kTerminateGraceNs;
    signal_ranks(SIGTERM);
  }

  void signal_ranks(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.alive) kill(rank.pid, signal);
    }
  }

  void check_deadlines() {
    const std::int64_t now = now_ns();
    if (grace_deadline_ns_ != 0 && now >= grace_deadline_ns_) terminate();
    if (kill_deadline_ns_ != 0 && now >= kill_deadline_ns_) {
      signal_ranks(SIGKILL);
      kill_deadline_ns_ = now + kTerminateGraceNs;
    }
  }

  std::int64_t next_deadline() const {
    return kill_deadline_ns_ != 0 ? kill_deadline_ns_ : grace_deadline_ns_;
  }

  Outcome outcome() {
    if (interrupted_by_ != 0) {
      return {Outcome::Status::interrupted,
              std::string("interrupted by signal ") + std::to_string(interrupted_by_) + " (" +
                  strsignal(interrupted_by_) + ")",
              interrupted_by_,
              {}};
    }
    if (!failures_.empty()) {
      const Failure& failure = failures_[blamed_];
      const bool memory = failure.error.kind == FailureKind::out_of_memory;
      return {memory ? Outcome::Status::out_of_memory : Outcome::Status::failed,
              reason_of(failure.error, failure.rank, static_cast<int>(ranks_.size()),
                        ranks_[failure.rank].pid),
              0,
              {}};
    }
    return {Outcome::Status::ok, {}, 0, std::move(result_)};
  }

  SignalWatch& signals_;
  const RankObserver& observer_;
  const std::int64_t memory_kills_before_ = kernel_memory_kills();
  std::vector<Rank> ranks_;
  std::vector<Failure> failures_;
  std::size_t blamed_ = 0;  ///< index into failures_
  std::int64_t grace_deadline_ns_ = 0;
  std::int64_t kill_deadline_ns_ = 0;
  int interrupted_by_ = 0;
  nlohmann::json result_;
};

}  // namespace

Outcome run_ranks(int world_size, const RankBody& body, SignalWatch& signals,
                  const RankObserver& observer) {
  return Supervisor(signals, observer).run(world_size, body);
}

}  // namespace ddprun
