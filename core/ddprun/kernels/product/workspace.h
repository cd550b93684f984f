// The products' own memory: each thread keeps what it packs operands into.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace ddprun::kernels {

/// Bytes of all workspaces of the process. They are no tensors, so no allocator counts them.
inline std::atomic<std::int64_t>& workspace_bytes() {
  static std::atomic<std::int64_t> bytes = 0;
  return bytes;
}

/// Memory of a thread, aligned to cache lines. It grows and is kept.
template <typename T>
class Workspace {
 public:
  ~Workspace() { drop(); }

  T* at_least(std::int64_t size) {
    if (size > size_) {
      drop();
      memory_.reset(new (std::align_val_t{64}) T[static_cast<std::size_t>(size)]);
      size_ = size;
      workspace_bytes() += bytes();
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  void drop() {
    workspace_bytes() -= bytes();
    size_ = 0;
    memory_.reset();
  }

  std::unique_ptr<T[], Free> memory_;
  std::int64_t size_ = 0;
};

}  // namespace ddprun::kernels
