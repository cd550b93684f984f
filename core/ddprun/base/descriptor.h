// A file descriptor that is closed with its owner, and how many are left.
#pragma once

#include <unistd.h>

#include <utility>

namespace ddprun {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.take()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// How many files, sockets and pipes this process can still open: `wanted`, or fewer. It tries.
int free_descriptors(int wanted);

}  // namespace ddprun
