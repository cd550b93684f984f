// How tiles are spread over threads. Each is one unit of work, taken by whoever is free.
#include "ddprun/kernels/attention/flash_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "ddprun/kernels/attention/flash_tiles.h"
#include "ddprun/kernels/rows/softmax.h"

namespace ddprun::kernels {

namespace {

/// (time, width) of one of the heads of all samples.
template <class T>
Matrix<T> head_of(const AttentionShape& shape, std::int64_t time, const HeadsOf<T>& all,
                  std::int64_t head) {
  return {all.data + head / shape.heads * all.batch_stride + head % shape.heads * all.head_stride,
          time, shape.width, all.time_stride};
}

template <class T>
HeadInputs<T> inputs_of(const AttentionShape& shape, const AttentionInputs<T>& all,
                        std::int64_t head) {
  return {head_of(shape, shape.queries, all.q, head),
          head_of(shape, shape.keys, all.k, head),
          head_of(shape, shape.keys, all.v, head),
          shape.causal,
          shape.scale,
          shape.first_keys == nullptr ? nullptr
                                      : shape.first_keys + head / shape.heads * shape.queries};
}

/// Scratch memory from torch's allocator, which the account of memory sees: `bytes` for each of
/// some threads.
class Scratch {
 public:
  Scratch(std::int64_t threads, std::int64_t bytes)
      : bytes_((bytes + 63) / 64 * 64), memory_(at::empty({threads * bytes_ + 64}, at::kByte)) {}

  std::byte* of_thread(std::int64_t thread) const {
    auto* const data = static_cast<std::byte*>(memory_.mutable_data_ptr());
    const auto misaligned = reinterpret_cast<std::uintptr_t>(data) % 64;
    return data + (64 - misaligned) % 64 + thread * bytes_;
  }

 private:
  std::int64_t bytes_;
  at::Tensor memory_;
};

/// How many threads a loop over `units` units may take.
std::int64_t threads_for(std::int64_t units) {
  const std::int64_t all = at::in_parallel_region() ? 1 : at::get_num_threads();
  return std::clamp<std::int64_t>(units, 1, all);
}

/// Calls f(unit, thread) for units 0, 1 and so on, on so many threads. A unit begins after all
/// before it have begun.
template <class F>
void for_each_unit(std::int64_t units, std::int64_t threads, const F& f) {
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread) {
      for (std::int64_t unit = next++; unit < units; unit = next++) f(unit, thread);
    }
  });
}

/// sums (heads, queries) = the sums of dout * out by rows, of so many heads from `first_head` on.
template <class T>
void row_sums(const AttentionShape& shape, const AttentionGradients<T>& gradients,
              std::int64_t first_head, std::int64_t heads, float* sums) {
  const std::int64_t tiles = at::ceil_div(shape.queries, kKeptTile);
  at::parallel_for(0, heads * tiles, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % tiles * kKeptTile;
      const std::int64_t head = unit / tiles;
      const auto dout = head_of(shape, shape.queries, gradients.dout, first_head + head);
      row_dots(dout.block(first, 0, kKeptTile, shape.width),
               head_of(shape, shape.queries, gradients.out, first_head + head).from(first),
               sums + head * shape.queries + first);
    }
  });
}

/// The float32 sums of dq for some heads. If dq is float32 they are dq itself.
template <class T>
class QueryGradientSums {
 public:
  QueryGradientSums(const AttentionShape& shape, std::int64_t heads) {
    if constexpr (!std::is_same_v<T, float>) {
      memory_ = at::empty({heads, shape.queries, shape.width}, at::kFloat);
    }
  }

  Matrix<float> of_head(std::int64_t head, const Matrix<T>& dq) const {
    if constexpr (std::is_same_v<T, float>) {
      return dq;
    } else {
      return {memory_.mutable_data_ptr<float>() + head * dq.rows * dq.columns, dq.rows, dq.columns,
              dq.columns};
    }
  }

 private:
  at::Tensor memory_;
};

/// How many heads are worked on at a time: one a thread, so that threads seldom wait for each
/// other, and more if they are small. A single thread waits for nobody, and finds a head in its
/// caches again.
std::int64_t heads_at_a_time(const AttentionShape& shape) {
  if (threads_for(shape.batch * shape.heads) == 1) return 1;
  constexpr std::int64_t kValues = 1 << 16;  // of dq: what a cache holds
  const std::int64_t that_fit = kValues / std::max<std::int64_t>(1, shape.queries * shape.width);
  return std::clamp<std::int64_t>(std::max<std::int64_t>(at::get_num_threads(), that_fit), 1,
                                  shape.batch * shape.heads);
}

}  // namespace

template <class S, class T>
void flash_forward(const AttentionShape& shape, const AttentionInputs<S>& in, const HeadsOf<S>& out,
                   float* log_sum_exp) {
  const std::int64_t all = shape.batch * shape.heads;
  const std::int64_t tiles = at::ceil_div(shape.queries, kKeptTile);
  const std::int64_t threads = threads_for(all * tiles);
  const Scratch scratch(threads, forward_tile_scratch<S, T>(shape.width));
  for_each_unit(all * tiles, threads, [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t head = unit / tiles;
    const std::int64_t tile = tiles - 1 - unit % tiles;  // the longest first
    forward_tile<S, T>(inputs_of(shape, in, head), tile * kKeptTile,
                       head_of(shape, shape.queries, out, head), log_sum_exp + head * shape.queries,
                       scratch.of_thread(thread));
  });
}

template <class S, class T>
void flash_backward(const AttentionShape& shape, const AttentionInputs<S>& in,
                    const AttentionGradients<S>& gradients) {
  const std::int64_t all = shape.batch * shape.heads;
  const std::int64_t tiles = at::ceil_div(shape.keys, kKeptTile);
  const std::int64_t query_tiles = at::ceil_div(shape.queries, kPassingTile);
  const std::int64_t together = heads_at_a_time(shape);
  const std::int64_t threads = threads_for(together * tiles);
  const at::Tensor delta = at::empty({together, shape.queries}, at::kFloat);
  const Scratch scratch(threads, backward_tile_scratch<S, T>(shape.width));
  const QueryGradientSums<S> sums(shape, together);
  for (std::int64_t first = 0; first < all; first += together) {
    const std::int64_t heads = std::min(together, all - first);
    std::vector<std::atomic<std::int64_t>> turns(heads * query_tiles);
    row_sums(shape, gradients, first, heads, delta.mutable_data_ptr<float>());
    for_each_unit(heads * tiles, threads, [&](std::int64_t unit, std::int64_t thread) {
      const std::int64_t head = first + unit % heads;
      const Matrix<S> dq = head_of(shape, shape.queries, gradients.dq, head);
      const HeadGradients<S> of_head = {
          .dout = head_of(shape, shape.queries, gradients.dout, head),
          .log_sum_exp = gradients.log_sum_exp + head * shape.queries,
          .delta = delta.const_data_ptr<float>() + unit % heads * shape.queries,
          .dq_sums = sums.of_head(unit % heads, dq),
          .dq = dq,
          .dk = head_of(shape, shape.keys, gradients.dk, head),
          .dv = head_of(shape, shape.keys, gradients.dv, head),
          .turns = turns.data() + unit % heads * query_tiles};
      backward_tile<S, T>(inputs_of(shape, in, head), unit / heads * kKeptTile, of_head,
                          scratch.of_thread(thread));
    });
  }
}

#define DDPRUN_FLASH(S, T)                                                             \
  template void flash_forward<S, T>(const AttentionShape&, const AttentionInputs<S>&,  \
                                    const HeadsOf<S>&, float*);                        \
  template void flash_backward<S, T>(const AttentionShape&, const AttentionInputs<S>&, \
                                     const AttentionGradients<S>&)

DDPRUN_FLASH(float, float);
DDPRUN_FLASH(bf16, float);
DDPRUN_FLASH(bf16, bf16);

}  // namespace ddprun::kernels
