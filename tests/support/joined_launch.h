// A launch whose ranks the test starts one by one, as a launcher would.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddprun/base/descriptor.h"
#include "support/ddprun_command.h"
#include "support/free_port.h"

namespace ddprun::test {

/// A launch of `size` ranks at one port, of which those that are started have a folder each.
class Launch {
 public:
  using Words = std::vector<std::string>;

  explicit Launch(int size, Words environment = {})
      : environment_(std::move(environment)), size_(size) {
    std::tie(listener_, port_) = listen_on_free_port();
  }
  /// Until then something else listens at the port and says nothing.
  void free_port() { listener_ = Descriptor(); }
  /// `launcher`: a program and its arguments, which starts the rank.
  DdprunProcess& start(int rank, const Words& words, const Words& variables = {},
                       const Words& launcher = {}) {
    folders_.push_back(std::make_unique<TemporaryFolder>());
    folders_.back()->write("one.yaml", tiny_experiment());
    const std::string ranks = std::to_string(size_);
    const std::string own = std::to_string(rank);
    Words environment = {"RANK=" + own,           "LOCAL_RANK=" + own,
                         "WORLD_SIZE=" + ranks,   "LOCAL_WORLD_SIZE=" + ranks,
                         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port_)};
    environment.insert(environment.end(), environment_.begin(), environment_.end());
    environment.insert(environment.end(), variables.begin(), variables.end());
    processes_.push_back(
        std::make_unique<DdprunProcess>(*folders_.back(), words, environment, launcher));
    return *processes_.back();
  }
  int port() const { return port_; }
  /// Its ranks meet those of the other one.
  void join(const Launch& other) { port_ = other.port_; }

 private:
  const Words environment_;
  int size_;
  int port_ = 0;
  Descriptor listener_;
  std::vector<std::unique_ptr<TemporaryFolder>> folders_;
  std::vector<std::unique_ptr<DdprunProcess>> processes_;
};

}  // namespace ddprun::test
