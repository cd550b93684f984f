// Collectives between the ranks of one host, on plain memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "ddprun/comm/backends/shm_allocations.h"
#include "ddprun/comm/backends/shm_channel.h"
#include "ddprun/comm/group/collective.h"

namespace ddprun {

/// Each call blocks until this rank's part is done. Every rank makes the same calls in the same
/// order. One thread at a time may call; only abort() may come from another meanwhile. Errors are
/// std::runtime_error; after one the object must not be used again.
///
/// Small data travel with the call (ShmChannel::letter_bytes()): each rank reads those of all,
/// reduces all of them by itself, and waits for the others once.
///
/// If the memory of all ranks lies in allocations of the group, ranks work on each other's memory
/// and nothing is copied. If not, chunks go through staging memory that stays in the caches: while
/// ranks reduce one chunk, the next is filled.
class ShmCollectives {
 public:
  /// Memory in `allocations` is worked on in place. They belong to the same ranks, and several
  /// objects of a rank may share them. Throws as ShmChannel does.
  ShmCollectives(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                 std::chrono::milliseconds timeout, std::shared_ptr<ShmAllocations> allocations);

  const ShmPlace& place() const { return channel_.place(); }
  /// Whether someone waits for the calls that follow.
  void set_awaited(bool awaited) { channel_.set_awaited(awaited); }

  /// Each rank reduces one slice of all ranks' data and writes the result to all, unless they are
  /// small. For N bytes a rank reads N and writes N, the least that is possible. Takes what
  /// can_reduce() allows.
  void all_reduce(std::byte* data, std::int64_t bytes, at::ScalarType type, ReduceOp op);
  /// `bytes` is the size of the output. The output may be this rank's slice of the input.
  void reduce_scatter(std::byte* output, std::byte* input, std::int64_t bytes, at::ScalarType type,
                      ReduceOp op);
  /// `bytes` is the size of the input. The input may be this rank's output.
  void all_gather(const std::vector<std::byte*>& outputs, std::byte* input, std::int64_t bytes);
  void broadcast(std::byte* data, std::int64_t bytes, int root);
  void barrier();

  /// Allocates `bytes` of zeroed memory on every rank, reachable by all. Returns the number in
  /// allocations(). If one rank cannot have the memory, all throw.
  int allocate(std::int64_t bytes);
  const std::shared_ptr<ShmAllocations>& allocations() const { return allocations_; }

  /// Tells the others that this rank gave up.
  void mark_failed() { channel_.mark_failed(); }
  /// Makes a call under way throw. Any thread may call it.
  void abort() { channel_.abort(); }

 private:
  /// One for each rank; most hosts need no heap for it.
  template <typename Byte>
  using Places = c10::SmallVector<Byte*, 8>;
  /// A chunk is bytes [begin, begin + size) of the memory that is worked on.
  struct Chunk {
    std::int64_t number = 0;  ///< of all that were worked on
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  using Step = c10::function_ref<void(const Chunk&)>;
  struct Steps {
    Step stage;         ///< puts what others read into this rank's slot
    Step consume;       ///< once all have staged it
    Step collect = {};  ///< once all have consumed it
  };

  /// Runs the steps over `total` bytes, in chunks of `unit` if a rank's memory must be staged.
  /// `read` is this rank's memory that others read, `read_bytes` of it; null if there is none.
  void run(ShmCall call, const std::byte* read, std::int64_t read_bytes, std::int64_t total,
           std::int64_t unit, const Steps& steps);
  void begin(const ShmCall& call);
  /// Begins with a letter of `bytes` (at most letter_bytes()) from `data`.
  void begin_with(const ShmCall& call, const std::byte* data, std::int64_t bytes);
  /// Every rank's letter, from byte `offset` on.
  Places<const std::byte> letters(std::int64_t offset) const;
  bool all_direct() const;
  bool is_direct(int rank) const;
  /// Where this process has mapped the memory of a rank whose call is direct.
  std::byte* memory_of(int rank) const;
  /// Where this process reads a chunk of that rank: in its memory, or where it has staged it.
  std::byte* source_of(int rank, const Chunk& chunk) const;
  std::vector<Mapping> map_parts(const MemoryFile& mine, std::size_t bytes) const;

  ShmChannel channel_;
  std::shared_ptr<ShmAllocations> allocations_;
};

}  // namespace ddprun
