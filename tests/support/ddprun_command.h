// Runs the built ddprun as a user would, and finds the processes that it left behind.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace ddprun::test {

using nlohmann::json;
/// Of a command line.
using Words = std::vector<std::string>;

/// Returns whether `condition` became true within `seconds`.
inline bool eventually(double seconds, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// Seconds in which a launch ends whose time limit is `limit_s`, on a busy machine. One that has
/// nothing else to do takes 5 more than the limit at most.
constexpr double in_time(double limit_s) { return limit_s + 25; }

/// Runs ddprun in a process group of its own. Its output goes to files in `folder`.
class DdprunProcess {
 public:
  /// `environment`: "NAME=value", on top of this process's. `launcher`: a program and its arguments
  /// that start ddprun.
  DdprunProcess(const TemporaryFolder& folder, const Words& arguments, Words environment = {},
                Words launcher = {})
      : environment_(std::move(environment)),
        words_(std::move(launcher)),
        folder_(folder.path()),
        marker_("DDPRUN_TEST_MARKER=" + folder.path().string()) {
    pid_ = fork();
    if (pid_ == 0) become_ddprun(arguments);
    setpgid(pid_, pid_);  // both sides, so that it holds whoever comes first
  }
  ~DdprunProcess() {
    if (!status_) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  DdprunProcess(const DdprunProcess&) = delete;
  DdprunProcess& operator=(const DdprunProcess&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return read_file(folder_ / "stdout"); }
  std::string err() const { return read_file(folder_ / "stderr"); }

  /// The exit status, or 1000 + the signal that killed it; nothing if it still runs after
  /// `seconds`.
  std::optional<int> wait(double seconds = 60) {
    eventually(seconds, [this] {
      int status = 0;
      if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) {
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
      }
      return status_.has_value();
    });
    return status_;
  }

  /// Its ranks: all live processes that inherited this run's environment, except ddprun itself.
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const pid_t pid = std::stoi(name);
      if (pid == pid_) continue;
      if (read_file(entry.path() / "environ").find(marker_ + '\0') != std::string::npos) {
        found.push_back(pid);
      }
    }
    return found;
  }

  bool has_said(const std::string& words) const {
    return (out() + err()).find(words) != std::string::npos;
  }
  bool says(const std::string& words, double within_s = 60) const {
    return eventually(within_s, [&] { return has_said(words); });
  }
  /// Whether `count` ranks are training: the log shows a step.
  bool trains(std::size_t count) const {
    return eventually(30, [&] { return ranks().size() == count && has_said(": step "); });
  }

 private:
  [[noreturn]] void become_ddprun(const Words& arguments) {
    setpgid(0, 0);
    for (const int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_DFL);
    if (chdir(folder_.c_str()) != 0) _exit(126);
    const int out = open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int err = open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (const char* name : {"RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                             "PMI_SIZE", "MPI_LOCALNRANKS"}) {
      unsetenv(name);
    }
    for (std::string& variable : environment_) putenv(variable.data());
    putenv(marker_.data());
    words_.emplace_back(DDPRUN_BUILD_DIR "/bin/ddprun");
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words_) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  Words environment_, words_;
  std::filesystem::path folder_;
  std::string marker_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

struct CommandResult {
  int status;
  std::string out, err;
};

inline CommandResult run_ddprun(const TemporaryFolder& folder, const Words& arguments,
                                const Words& launcher = {}) {
  DdprunProcess process(folder, arguments, {}, launcher);
  const std::optional<int> status = process.wait(120);
  if (!status) throw std::runtime_error("ddprun still runs after two minutes:\n" + process.err());
  return {*status, process.out(), process.err()};
}

/// Throws what it said unless it ends with that status.
inline CommandResult must_end(int status, const TemporaryFolder& folder, const Words& arguments,
                              const Words& launcher = {}) {
  CommandResult run = run_ddprun(folder, arguments, launcher);
  if (run.status == status) return run;
  throw std::runtime_error("exit status " + std::to_string(run.status) + "\n" + run.out + run.err);
}
inline CommandResult must_run(const TemporaryFolder& folder, const Words& arguments,
                              const Words& launcher = {}) {
  return must_end(0, folder, arguments, launcher);
}
/// What stderr says of bad usage or configuration.
inline std::string refusal_of(const TemporaryFolder& folder, const Words& arguments,
                              const Words& launcher = {}) {
  return must_end(2, folder, arguments, launcher).err;
}

/// The launcher that is a line of a shell, where "$0" "$@" stands for the command.
inline Words by_shell(const std::string& line) { return {"/bin/bash", "-c", line}; }
/// The launcher that does this in a shell first.
inline Words after(const std::string& commands) {
  return by_shell(commands + R"(; exec "$0" "$@")");
}

/// The launcher that has so many ranks on each of two hosts (tests/support/two_hosts.sh), and its
/// exit status where the system allows none.
inline Words two_hosts(int local_size, Words options = {}) {
  options.insert(options.begin(), {DDPRUN_SOURCE_DIR "/tests/support/two_hosts.sh", "--local-size",
                                   std::to_string(local_size)});
  return options;
}
inline constexpr int kNotPossible = 77;

/// The words, and --set before each of the settings.
inline Words with_sets(Words words, const Words& settings) {
  for (const std::string& each : settings) words.insert(words.end(), {"--set", each});
  return words;
}

/// An experiment that takes a fraction of a second; `more` is appended.
inline std::string tiny_experiment(const std::string& more = {}, int steps = 3) {
  return "model: {vocab_size: 256, context_length: 16, d_model: 32, d_ff: 64, layers: 1, heads: "
         "2}\n"
         "data: {source: random}\n"
         "world: {size: 2}\n"
         "strategy: flat\n"
         "precision: fp32\n"
         "attention: eager\n"
         "optimizer: {name: adamw, lr: 0.001}\n"
         "train: {batch_per_rank: 2, warmup_steps: 1, steps: " +
         std::to_string(steps) + "}\n" + more;
}

/// The element of a list whose `key` is that text; an empty object if there is none.
inline json element_of(const json& list, const char* key, const std::string& text) {
  for (const json& each : list) {
    if (each.value(key, "") == text) return each;
  }
  return json::object();
}

/// Of a list of [name, bytes].
inline std::int64_t sum_of(const json& parts) {
  std::int64_t bytes = 0;
  for (const json& part : parts) bytes += part[1].get<std::int64_t>();
  return bytes;
}

/// The only result folder under `<folder>/results/<name>`, or an empty path.
inline std::filesystem::path only_result(const TemporaryFolder& folder, const std::string& name) {
  std::filesystem::path found;
  const auto parent = folder.path() / "results" / name;
  if (!std::filesystem::exists(parent)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (entry.is_symlink()) continue;
    if (!found.empty()) throw std::runtime_error("several results in " + parent.string());
    found = entry.path();
  }
  return found;
}

/// Its result.json.
inline json result_of(const TemporaryFolder& folder, const std::string& name) {
  return json::parse(read_file(only_result(folder, name) / "result.json"));
}
inline json rows_of(const TemporaryFolder& folder, const std::string& name) {
  return result_of(folder, name)["rows"];
}

}  // namespace ddprun::test
