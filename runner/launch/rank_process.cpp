// Forks ranks; the child's life from fork to _exit; a terminate handler, beside which other threads
// go on, and may hold locks.
#include "runner/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "ddprun/base/child_process.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/rank/heap.h"
#include "runner/launch/exit_status.h"
#include "runner/launch/memory_words.h"

namespace ddprun {

namespace {

std::function<void(const RankError&)>& listener() {
  static auto& the_one = *new std::function<void(const RankError&)>;
  return the_one;
}

std::string words_of_current_exception() {
  const std::exception_ptr exception = std::current_exception();
  if (!exception) return "std::terminate() was called";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& failure) {
    return message_of(failure);
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

RankError memory_ran_out(const std::string& words) {
  return {FailureKind::out_of_memory,
          {.what = "out of memory: this process is at its limit of private memory "
                   "(world.memory_limit_gb, ulimit -d)",
           .got = words,
           .expected = "that all there is at a time fits"}};
}

RankError error_of(const std::string& words) {
  if (words.find("gloo") != std::string::npos) {
    return {FailureKind::comm,
            {.what = "gloo got a message that nobody here expects, and gave up",
             .got = words,
             .expected = "the same collectives, of the same size, on every rank",
             .hint = "see the strategy: one rank left a collective out, or made one of another "
                     "size"}};
  }
  return {FailureKind::other,
          {.what = "an exception left its thread",
           .got = words,
           .expected = "exceptions that their thread catches",
           .hint = "these are the words of LibTorch, or of a plugin with threads of its own"}};
}

/// What reaches the end of the process where memory is at its limit is of it, whatever it says, if
/// it could be said at all. To say it takes more of it.
[[noreturn]] void say_and_end_as(const std::function<RankError()>& error) {
  static std::atomic_flag entered;
  while (entered.test_and_set()) ::pause();  // the first one speaks
  const bool memory = at_memory_limit();
  if (memory) limit_memory(0);
  RankError said = error();
  if (memory) said = memory_ran_out(said.text.got);
  listener()(said);
  ::_exit(kExitFailed);
}

[[noreturn]] void on_terminate() {
  say_and_end_as([] { return error_of(words_of_current_exception()); });
}

/// OpenMP calls exit() if it cannot start a thread.
void on_exit() {
  if (!at_memory_limit()) return;  // whoever waits for this process says how it ended
  say_and_end_as([] { return RankError{.text = {.got = "exit() was called"}}; });
}

constexpr std::int64_t kProgressIntervalNs = 100'000'000;

/// Writes events to the parent. Thread-safe: any thread may log.
class EventWriter {
 public:
  explicit EventWriter(int fd) : fd_(fd) {}

  void send(RankEvent kind, nlohmann::json event = nlohmann::json::object()) {
    event["event"] = name_of(kind);
    const std::string line = json_text(event) + "\n";
    const std::lock_guard lock(mutex_);
    write_all(fd_, line);  // if it fails, the parent is gone and this process about to be killed
  }

  void send_error(const RankError& error) {
    send(RankEvent::error, {{"kind", name_of(error.kind)}, {"text", error.text}});
  }

 private:
  int fd_;
  std::mutex mutex_;
};

/// The log of a rank travels to the parent, which keeps it from tearing the progress bar.
class PipeSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit PipeSink(EventWriter& writer) : writer_(writer) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const auto level = spdlog::level::to_string_view(message.level);
    writer_.send(RankEvent::log,
                 {{"level", std::string(level.data(), level.size())},
                  {"text", std::string(message.payload.data(), message.payload.size())}});
  }
  void flush_() override {}

 private:
  EventWriter& writer_;
};

void log_through(EventWriter& writer) {
  const auto level = spdlog::get_level();
  auto logger = std::make_shared<spdlog::logger>("rank", std::make_shared<PipeSink>(writer));
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

constexpr const char* kEndsByItself = "every rank ends by itself, and says how";

/// `memory_killed`: the kernel has killed a process for want of memory meanwhile.
RankError describe_signal(int signal, bool memory_killed) {
  const std::string name = signal_text(signal);
  if (signal != SIGKILL) {
    const bool asked = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    return {FailureKind::died,
            {.what = "killed by signal " + name,
             .got = "no error message",
             .expected = kEndsByItself,
             .hint = asked               ? "who sent it? A user, a launcher or a batch system can"
                     : signal == SIGXCPU ? "`ulimit -t` limits the processor time of a process"
                     : signal == SIGBUS
                         ? "a library or file that it had open was cut or written over: start again"
                         : "it crashed, most likely in a plugin: run the debug or asan preset"}};
  }
  if (memory_killed) {
    return {FailureKind::out_of_memory,
            {.what = "killed by signal " + name + ", by the kernel, whose memory ran out",
             .got = "the kernel counted a process that it killed for want of memory, which "
                    "the ranks of a host share",
             .expected = kEndsByItself}};
  }
  return {FailureKind::died,
          {.what = "killed by signal " + name,
           .got = "the kernel says nothing of memory that ran out",
           .expected = kEndsByItself,
           .hint = "who killed it? A user, a launcher, a container's limit or `ulimit -t` can"}};
}

int run_body(const RankInfo& info, const RankBody& body, EventWriter& writer) {
  try {
    std::int64_t last_sent = 0;
    const auto on_progress = [&](const Progress& progress) {
      const std::int64_t now = now_ns();
      if (info.rank != 0 || now - last_sent < kProgressIntervalNs) return;
      last_sent = now;
      writer.send(
          RankEvent::progress,
          {{"step", progress.step}, {"steps", progress.steps}, {"figures", progress.figures}});
    };
    nlohmann::json result = body(info, on_progress);
    if (info.rank == 0) writer.send(RankEvent::result, {{"result", std::move(result)}});
    writer.send(RankEvent::done);
    return kExitDone;
  } catch (...) {
    writer.send_error(describe_current_exception());
    return kExitFailed;
  }
}

[[noreturn]] void child_main(pid_t parent, const RankInfo& info, const RankBody& body,
                             SignalWatch& signals, LaunchBoard& board, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitFailed);  // the parent died before prctl
  const std::string name = "ddprun rank " + std::to_string(info.rank);
  prctl(PR_SET_NAME, name.c_str());
  signals.leave_to_parent();
  board.attach(info.rank);
  LaunchBoard::PhaseWriter phases;
  const PhaseSubscription subscription(phases);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is the report's
  EventWriter writer(fd);
  log_through(writer);
  say_uncaught([&](const RankError& error) { writer.send_error(error); });
  const int status = run_body(info, body, writer);
  std::fflush(nullptr);
  _exit(status);  // the parent's static objects are not this process's to destroy
}

}  // namespace

void say_and_end(const RankError& error) {
  say_and_end_as([&error] { return error; });
}

void say_uncaught(std::function<void(const RankError&)> say) {
  listener() = std::move(say);
  std::set_terminate(on_terminate);
  static const int once = std::atexit(on_exit);
  static_cast<void>(once);
}

RankError describe_current_exception() {
  try {
    throw;
  } catch (const ConfigError& error) {
    return {FailureKind::config, error.text()};
  } catch (const PluginError& error) {
    return {FailureKind::plugin, error.text()};
  } catch (const PeerGoneError& error) {
    return {FailureKind::peer_gone, error.text()};
  } catch (const TimeoutError& error) {
    return {FailureKind::timeout, error.text()};
  } catch (const CommError& error) {  // also where a peer says that its memory ran out
    return {FailureKind::comm, error.text()};
  } catch (const std::exception& error) {
    if (says_out_of_memory(error)) return {FailureKind::out_of_memory, memory_error(error)};
    if (const auto* own = dynamic_cast<const Error*>(&error)) {
      return {FailureKind::other, own->text()};
    }
    return {FailureKind::other,
            {.what = first_line_of(error),
             .got = message_of(error),
             .expected = "no exception but ddprun's own",
             .hint = says_no_thread(error)
                         ? kNoThreadHint
                         : "these are the words of LibTorch, of the system or of a plugin"}};
  } catch (...) {
    return {FailureKind::other,
            {.what = "an exception that is no std::exception",
             .got = "nothing that could be shown",
             .expected = "exceptions derived from std::exception",
             .hint = "a plugin of your own throws it"}};
  }
}

RankError describe_exit(int status, bool memory_killed) {
  if (WIFSIGNALED(status)) return describe_signal(WTERMSIG(status), memory_killed);
  return {FailureKind::died,
          {.what = "ended before it was done",
           .got = "exit status " + std::to_string(WEXITSTATUS(status)) + ", no error message",
           .expected = kEndsByItself,
           .hint = "something called exit() in it: a plugin, or OpenMP, if it could not start a "
                   "thread (`ulimit -u`, OMP_STACKSIZE)"}};
}

std::string reason_of(const RankError& error, int rank, int world_size, pid_t process) {
  ErrorText text = error.text;
  text.what = fmt::format("rank {} failed: {}", rank, text.what);
  if (text.where.empty()) {
    text.where = fmt::format("rank {} of {}", rank, world_size);
    if (process != 0) text.where += fmt::format(", process {}", process);
  }
  return Error(text).what();
}

ForkedRank fork_rank(const RankInfo& info, const RankBody& body, SignalWatch& signals,
                     LaunchBoard& board, const std::function<void()>& close_others) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t parent = getpid();
  std::fflush(nullptr);  // else the child would write the parent's buffered text again
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    close_others();
    child_main(parent, info, body, signals, board, ends[1]);
  }
  const int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    throw std::system_error(error, std::generic_category(),
                            "cannot start rank " + std::to_string(info.rank));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {pid, ends[0]};
}

}  // namespace ddprun
