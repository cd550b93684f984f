// A launch whose ranks the test starts one by one, as a launcher would.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/ddprun_command.h"
#include "support/free_port.h"

namespace ddprun::test {

using testing::_;

/// A launch of `size` ranks at one port, of which those that are started have a folder each, with
/// the experiment as one.yaml.
class Launch {
 public:
  explicit Launch(int size, Words environment = {}, std::string experiment = tiny_experiment())
      : environment_(std::move(environment)), experiment_(std::move(experiment)), size_(size) {}
  /// `launcher`: a program and its arguments, which starts the rank.
  DdprunProcess& start(int rank, const Words& words, const Words& variables = {},
                       const Words& launcher = {}) {
    folders_.push_back(std::make_unique<TemporaryFolder>());
    folders_.back()->write("one.yaml", experiment_);
    const std::string ranks = std::to_string(size_);
    const std::string own = std::to_string(rank);
    Words environment = {"RANK=" + own,           "LOCAL_RANK=" + own,
                         "WORLD_SIZE=" + ranks,   "LOCAL_WORLD_SIZE=" + ranks,
                         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port)};
    environment.insert(environment.end(), environment_.begin(), environment_.end());
    environment.insert(environment.end(), variables.begin(), variables.end());
    processes_.push_back(
        std::make_unique<DdprunProcess>(*folders_.back(), words, environment, launcher));
    return *processes_.back();
  }
  /// All of its ranks.
  std::vector<DdprunProcess*> start_all(const Words& words) {
    std::vector<DdprunProcess*> ranks;
    for (int rank = 0; rank < size_; ++rank) ranks.push_back(&start(rank, words));
    return ranks;
  }
  /// Each rank that was started ends with that status, and says this on stderr.
  template <class Says>
  void expect_all(int status, const Says& says, double seconds = 20) {
    for (const auto& rank : processes_) {
      EXPECT_EQ(rank->wait(seconds), status) << rank->err();
      EXPECT_THAT(rank->err(), says) << rank->out();
    }
  }
  /// Of the rank that was started as the i-th.
  const TemporaryFolder& folder(std::size_t i) const { return *folders_[i]; }

  int port = free_port();

 private:
  const Words environment_;
  const std::string experiment_;
  int size_;
  std::vector<std::unique_ptr<TemporaryFolder>> folders_;
  std::vector<std::unique_ptr<DdprunProcess>> processes_;
};

}  // namespace ddprun::test
