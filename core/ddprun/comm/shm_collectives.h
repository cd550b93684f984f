// Collectives between the ranks of one host, on plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "ddprun/comm/collective.h"
#include "ddprun/comm/shm_allocations.h"
#include "ddprun/comm/shm_channel.h"

namespace ddprun {

/// Each call blocks until this rank's part is done; every rank makes the same calls in the same
/// order. One thread, but for abort(). Errors: std::runtime_error, after which the object is not
/// used again.
///
/// Where the memory of all ranks lies in allocations of the group, ranks work on each other's
/// memory, and nothing is copied. Else chunks go through staging memory that stays in the caches:
/// while ranks reduce one chunk, the next is filled.
class ShmCollectives {
 public:
  /// `allocations`: those that are worked on in place; of the same ranks, who each may share them
  /// between several objects. Throws as ShmChannel does.
  ShmCollectives(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                 std::chrono::milliseconds timeout, std::shared_ptr<ShmAllocations> allocations);

  const ShmPlace& place() const { return channel_.place(); }

  /// Each rank reduces one slice of all ranks' data, and writes it to all: for N bytes on n ranks a
  /// rank reads N and writes N, the least that is possible. For what can_reduce() allows.
  void all_reduce(std::byte* data, std::int64_t bytes, at::ScalarType type, ReduceOp op);
  /// `bytes`: of the output. The output may be this rank's slice of the input.
  void reduce_scatter(std::byte* output, std::byte* input, std::int64_t bytes, at::ScalarType type,
                      ReduceOp op);
  /// `bytes`: of the input. The input may be this rank's output.
  void all_gather(const std::vector<std::byte*>& outputs, std::byte* input, std::int64_t bytes);
  void broadcast(std::byte* data, std::int64_t bytes, int root);
  void barrier();

  /// As much zeroed memory on every rank, reachable by all: its number in allocations(). If a rank
  /// cannot have it, all throw.
  int allocate(std::int64_t bytes);
  const std::shared_ptr<ShmAllocations>& allocations() const { return allocations_; }

  /// Tells the others that this rank gave up.
  void mark_failed() { channel_.mark_failed(); }
  /// Any thread: a call under way throws.
  void abort() { channel_.abort(); }

 private:
  /// Bytes [begin, begin + size) of the memory that is worked on.
  struct Chunk {
    std::int64_t index = 0;
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  struct Steps {
    std::function<void(const Chunk&)> stage;    ///< puts what others read into this rank's slot
    std::function<void(const Chunk&)> consume;  ///< once all have staged it
    std::function<void(const Chunk&)> collect = nullptr;  ///< once all have consumed it
  };

  /// Runs the steps over `total` bytes, in chunks of `unit` where a rank's memory must be staged.
  /// `read`: this rank's memory that others read, `read_bytes` of it; null: none.
  void run(ShmCall call, const std::byte* read, std::int64_t read_bytes, std::int64_t total,
           std::int64_t unit, const Steps& steps);
  void begin(const ShmCall& call);
  bool all_direct() const;
  bool is_direct(int rank) const;
  /// The memory of a rank whose call is direct, as this process has mapped it.
  std::byte* memory_of(int rank) const;
  std::vector<Mapping> map_parts(const MemoryFile& mine, std::size_t bytes) const;

  ShmChannel channel_;
  std::shared_ptr<ShmAllocations> allocations_;
};

}  // namespace ddprun
