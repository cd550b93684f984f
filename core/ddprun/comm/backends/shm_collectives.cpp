// What each rank reads and writes in each collective, chunk by chunk.
#include "ddprun/comm/backends/shm_collectives.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/backends/shm_reduce.h"

namespace ddprun {

namespace {

constexpr std::int64_t kCacheLine = 64;
constexpr std::int32_t kAllocate = -1;  // a kind of call beside those of CollectiveKind

// ShmCall::allocation of memory that is outside, and of none.
constexpr std::int32_t kOutside = -1;
constexpr std::int32_t kNotRead = -2;

ShmCall call_of(CollectiveKind kind, std::int64_t bytes) {
  return {.kind = static_cast<std::int32_t>(kind), .bytes = bytes};
}

ShmCall call_of(CollectiveKind kind, std::int64_t bytes, at::ScalarType type, ReduceOp op) {
  ShmCall call = call_of(kind, bytes);
  call.type = static_cast<std::int32_t>(type);
  call.op = static_cast<std::int32_t>(op);
  return call;
}

bool same(const ShmCall& a, const ShmCall& b) {
  return a.kind == b.kind && a.op == b.op && a.type == b.type && a.root == b.root &&
         a.bytes == b.bytes;
}

std::string text_of(const ShmCall& call, const ShmPlace& place) {
  const auto kind = static_cast<CollectiveKind>(call.kind);
  std::string text = call.kind == kAllocate ? "allocate" : name_of(kind);
  text += " of " + std::to_string(call.bytes) + " bytes";
  if (reduces(kind)) {
    constexpr const char* kOps[] = {"sum", "avg", "max"};
    text += std::string(", ") + kOps[call.op] + " of " +
            c10::toString(static_cast<at::ScalarType>(call.type));
  }
  if (kind == CollectiveKind::broadcast) text += " from " + place.name_of(call.root);
  return text;
}

/// Bytes [begin, end), relative to the chunk, of slice `rank` of `count`: whole cache lines, but
/// for the last.
std::pair<std::int64_t, std::int64_t> slice_of(std::int64_t size, int rank, int count) {
  const std::int64_t lines = (size + kCacheLine - 1) / kCacheLine;
  const auto edge = [&](int slice) { return std::min(size, lines * slice / count * kCacheLine); };
  return {edge(rank), edge(rank + 1)};
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

ShmCollectives::ShmCollectives(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                               std::chrono::milliseconds timeout,
                               std::shared_ptr<ShmAllocations> allocations)
    : channel_(store, place, timeout), allocations_(std::move(allocations)) {}

bool ShmCollectives::is_direct(int rank) const {
  return channel_.call_of(rank).allocation != kOutside;
}

bool ShmCollectives::all_direct() const {
  for (int rank = 0; rank < channel_.size(); ++rank) {
    if (!is_direct(rank)) return false;
  }
  return true;
}

std::byte* ShmCollectives::memory_of(int rank) const {
  const ShmCall& call = channel_.call_of(rank);
  return allocations_->part(call.allocation, rank) + call.offset;
}

std::byte* ShmCollectives::source_of(int rank, const Chunk& chunk) const {
  return is_direct(rank) ? memory_of(rank) + chunk.begin : channel_.staged(rank, chunk.number);
}

void ShmCollectives::begin(const ShmCall& call) {
  channel_.begin(call);
  for (int rank = 0; rank < channel_.size(); ++rank) {
    if (same(call, channel_.call_of(rank))) continue;
    throw std::runtime_error(
        "the ranks called different collectives: " + place().name_of(channel_.rank()) + " " +
        text_of(call, place()) + ", " + place().name_of(rank) + " " +
        text_of(channel_.call_of(rank), place()));
  }
}

void ShmCollectives::begin_with(const ShmCall& call, const std::byte* data, std::int64_t bytes) {
  copy_bytes(channel_.new_letter(), data, bytes);
  begin(call);
}

ShmCollectives::Places<const std::byte> ShmCollectives::letters(std::int64_t offset) const {
  Places<const std::byte> from;
  for (int rank = 0; rank < channel_.size(); ++rank) {
    from.push_back(channel_.letter_of(rank) + offset);
  }
  return from;
}

void ShmCollectives::run(ShmCall call, const std::byte* read, std::int64_t read_bytes,
                         std::int64_t total, std::int64_t unit, const Steps& steps) {
  call.allocation = kNotRead;
  if (total == 0) return begin(call);
  if (read != nullptr && channel_.size() > 1) {
    const auto found = allocations_->find(channel_.rank(), read, read_bytes);
    call.allocation = found ? found->first : kOutside;
    call.offset = found ? found->second : 0;
  }
  const bool staging = call.allocation == kOutside;
  const std::int64_t first = channel_.finished();
  const auto chunk = [&](std::int64_t index, std::int64_t size) {
    return Chunk{first + index, index * size, std::min(size, total - index * size)};
  };
  // Staged before the others' calls are known: if one rank stages, all go by chunks.
  if (staging) steps.stage(chunk(0, unit));
  begin(call);
  const std::int64_t size = all_direct() ? total : unit;
  const std::int64_t chunks = (total + size - 1) / size;
  // Results are collected one chunk late, when the others are most likely done with that chunk. So
  // chunk k + 1 is staged where k - 2 was, which all have finished. The results of k are written
  // when all have posted k, and so have collected k - 3.
  static_assert(ShmChannel::kSlots >= 3);
  const auto collect = [&](std::int64_t index) {
    if (steps.collect) steps.collect(chunk(index, size));
  };
  for (std::int64_t index = 0; index < chunks; ++index) {
    const bool more = index + 1 < chunks;
    if (more) {
      if (staging) steps.stage(chunk(index + 1, size));
      channel_.post();
    }
    if (index > 0) channel_.wait_posted(more ? 1 : 0);
    steps.consume(chunk(index, size));
    channel_.finish();
    if (index == 0) continue;
    channel_.wait_finished(1);
    collect(index - 1);
  }
  channel_.wait_finished();
  collect(chunks - 1);
}

void ShmCollectives::all_reduce(std::byte* data, std::int64_t bytes, at::ScalarType type,
                                ReduceOp op) {
  const int me = channel_.rank();
  const int n = channel_.size();
  if (n == 1) return;
  const ShmCall call = call_of(CollectiveKind::all_reduce, bytes, type, op);
  if (bytes <= channel_.letter_bytes()) {
    begin_with(call, data, bytes);
    return reduce_elements(type, op, bytes, letters(0), {&data, 1});
  }
  const auto stage = [&](const Chunk& chunk) {
    const auto [begin, end] = slice_of(chunk.size, me, n);
    std::byte* slot = channel_.staged(me, chunk.number);
    copy_bytes(slot, data + chunk.begin, begin);
    copy_bytes(slot + end, data + chunk.begin + end, chunk.size - end);
  };
  const auto consume = [&](const Chunk& chunk) {
    const auto [begin, end] = slice_of(chunk.size, me, n);
    const bool direct = all_direct();
    Places<const std::byte> inputs;
    Places<std::byte> outputs;
    for (int rank = 0; rank < n; ++rank) {
      std::byte* from = rank == me ? data + chunk.begin : source_of(rank, chunk);
      inputs.push_back(from + begin);
      if (rank == me || direct) outputs.push_back(from + begin);
    }
    if (!direct) outputs.push_back(channel_.results(me, chunk.number) + begin);
    reduce_elements(type, op, end - begin, inputs, outputs);
  };
  const auto collect = [&](const Chunk& chunk) {
    if (all_direct()) return;
    for (int rank = 0; rank < n; ++rank) {
      if (rank == me) continue;
      const auto [begin, end] = slice_of(chunk.size, rank, n);
      copy_bytes(data + chunk.begin + begin, channel_.results(rank, chunk.number) + begin,
                 end - begin);
    }
  };
  run(call, data, bytes, bytes, ShmChannel::kSlotBytes, {stage, consume, collect});
}

void ShmCollectives::reduce_scatter(std::byte* output, std::byte* input, std::int64_t bytes,
                                    at::ScalarType type, ReduceOp op) {
  const int me = channel_.rank();
  const int n = channel_.size();
  const ShmCall call = call_of(CollectiveKind::reduce_scatter, bytes, type, op);
  if (n * bytes <= channel_.letter_bytes()) {
    begin_with(call, input, n * bytes);
    return reduce_elements(type, op, bytes, letters(me * bytes), {&output, 1});
  }
  const std::int64_t unit = ShmChannel::kSlotBytes / n / kCacheLine * kCacheLine;
  const auto stage = [&](const Chunk& chunk) {
    for (int rank = 0; rank < n; ++rank) {
      if (rank == me) continue;
      copy_bytes(channel_.staged(me, chunk.number) + rank * unit,
                 input + rank * bytes + chunk.begin, chunk.size);
    }
  };
  const auto consume = [&](const Chunk& chunk) {
    std::byte* const to = output + chunk.begin;
    Places<const std::byte> inputs;
    for (int rank = 0; rank < n; ++rank) {
      inputs.push_back(rank == me        ? input + me * bytes + chunk.begin
                       : is_direct(rank) ? memory_of(rank) + me * bytes + chunk.begin
                                         : channel_.staged(rank, chunk.number) + me * unit);
    }
    reduce_elements(type, op, chunk.size, inputs, {&to, 1});
  };
  run(call, input, n * bytes, bytes, unit, {stage, consume});
}

void ShmCollectives::all_gather(const std::vector<std::byte*>& outputs, std::byte* input,
                                std::int64_t bytes) {
  const int me = channel_.rank();
  const ShmCall call = call_of(CollectiveKind::all_gather, bytes);
  if (bytes <= channel_.letter_bytes()) {
    begin_with(call, input, bytes);
    const auto from = letters(0);
    for (int rank = 0; rank < channel_.size(); ++rank) copy_bytes(outputs[rank], from[rank], bytes);
    return;
  }
  const auto stage = [&](const Chunk& chunk) {
    copy_bytes(channel_.staged(me, chunk.number), input + chunk.begin, chunk.size);
  };
  const auto consume = [&](const Chunk& chunk) {
    for (int rank = 0; rank < channel_.size(); ++rank) {
      copy_bytes(outputs[rank] + chunk.begin,
                 rank == me ? input + chunk.begin : source_of(rank, chunk), chunk.size);
    }
  };
  run(call, input, bytes, bytes, ShmChannel::kSlotBytes, {stage, consume});
}

void ShmCollectives::broadcast(std::byte* data, std::int64_t bytes, int root) {
  const bool mine = channel_.rank() == root;
  ShmCall call = call_of(CollectiveKind::broadcast, bytes);
  call.root = root;
  if (bytes <= channel_.letter_bytes()) {
    begin_with(call, data, mine ? bytes : 0);
    return copy_bytes(data, channel_.letter_of(root), mine ? 0 : bytes);
  }
  const auto stage = [&](const Chunk& chunk) {
    copy_bytes(channel_.staged(root, chunk.number), data + chunk.begin, chunk.size);
  };
  const auto consume = [&](const Chunk& chunk) {
    if (mine) return;
    copy_bytes(data + chunk.begin, source_of(root, chunk), chunk.size);
    if (is_direct(root)) allocations_->forget(channel_.call_of(root).allocation, root);
  };
  run(call, mine ? data : nullptr, bytes, bytes, ShmChannel::kSlotBytes, {stage, consume});
}

void ShmCollectives::barrier() { begin(call_of(CollectiveKind::barrier, 0)); }

int ShmCollectives::allocate(std::int64_t bytes) {
  const std::size_t size = whole_pages(static_cast<std::size_t>(bytes));
  ShmCall call{.kind = kAllocate, .bytes = bytes, .released = allocations_->released()};
  std::optional<MemoryFile> mine;
  std::string refusal;
  try {
    mine.emplace(MemoryFile::create(size, size * channel_.size()));
    call.descriptor = mine->descriptor();
  } catch (const std::runtime_error& failure) {
    refusal = failure.what();
  }
  begin(call);
  if (!mine) throw std::runtime_error(refusal);
  std::uint64_t released = call.released;
  for (int rank = 0; rank < channel_.size(); ++rank) {
    const ShmCall& other = channel_.call_of(rank);
    if (other.descriptor < 0) {
      throw std::runtime_error(place().name_of(rank) + " could not get " +
                               std::to_string(size >> 20) + " MiB of shared memory");
    }
    released &= other.released;
  }
  allocations_->drop(released);
  const int number = allocations_->add(map_parts(*mine, size));
  channel_.finish();
  channel_.wait_finished();  // all have mapped this rank's part: its descriptor may go
  return number;
}

std::vector<Mapping> ShmCollectives::map_parts(const MemoryFile& mine, std::size_t bytes) const {
  std::vector<Mapping> parts;
  for (int rank = 0; rank < channel_.size(); ++rank) {
    if (rank == channel_.rank()) {
      parts.push_back(mine.map(bytes));
      continue;
    }
    const int descriptor = channel_.call_of(rank).descriptor;
    parts.push_back(
        MemoryFile::open(channel_.process(rank), descriptor).map(bytes, /*at_once=*/false));
  }
  return parts;
}

}  // namespace ddprun
