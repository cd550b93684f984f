// Which collective is measured, and on what (the YAML section `collectives:`); and one collective
// on the buffers of one rank: they are filled, it is called, its result is compared.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

class Options;

constexpr auto choice_names(ReduceOp) { return std::array{"sum", "avg", "max"}; }

enum class ElementType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  uint8,
  int32,
  int64
};
constexpr auto choice_names(ElementType) {
  return std::array{"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"};
}
c10::ScalarType scalar_type(ElementType type);
std::int64_t bytes_of(ElementType type);

/// Where the buffers lie: in a tensor's own memory, or in that of ProcessGroup::allocate().
enum class BufferMemory : std::uint8_t { ordinary, group };
constexpr auto choice_names(BufferMemory) { return std::array{"ordinary", "group"}; }

struct CollectivesConfig {
  CollectiveKind collective = CollectiveKind::all_reduce;
  /// Of the whole tensor, as nccl-tests counts: all-gather's output, reduce-scatter's input.
  std::int64_t bytes = 1'000'000;
  ElementType dtype = ElementType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = true;
  BufferMemory memory = BufferMemory::ordinary;

  bool reduces() const;
  /// Whether the tensor is `ranks` equal slices.
  bool slices() const {
    return collective == CollectiveKind::all_gather || collective == CollectiveKind::reduce_scatter;
  }
  /// Of the whole tensor: as many as `bytes` have room for in equal slices; 0 for a barrier.
  std::int64_t elements(std::int64_t ranks) const;
  /// Bytes of all buffers of one rank.
  std::int64_t buffer_bytes(std::int64_t ranks) const;
};

void declare_options(Options& options, CollectivesConfig& config);

/// All ranks call it alike, on one thread, by rounds: fill(), call(), then wrong() if wanted.
class CollectiveTrial {
 public:
  virtual ~CollectiveTrial() = default;
  /// Writes all of a round's input, and over what gets a result what must not be left there.
  virtual void fill(std::int64_t round) = 0;
  /// Runs the collective. It returns when the result is there (on a GPU: in the stream's order).
  virtual void call() = 0;
  /// How many elements of this rank's result are wrong, all of them compared.
  virtual std::int64_t wrong(std::int64_t round) = 0;
  /// How many elements wrong() compares.
  virtual std::int64_t compared() const = 0;
};

/// The levels of the pattern that the buffers are filled with, beside 0, so that no sum of that
/// many ranks is rounded; 0: even one level would be.
std::int64_t pattern_levels(const CollectivesConfig& config, std::int64_t ranks);

/// A trial on buffers; of a barrier one that has none, and in which wrong() tries whether a rank
/// leaves before the last one came (it calls barriers of its own). pattern_levels() is above 0.
std::unique_ptr<CollectiveTrial> make_collective_trial(const CollectivesConfig& config,
                                                       ProcessGroup& group);

/// Adds to `result` this rank's samples (of kind collectives), the checks "data_before_timing" and
/// "data_after_timing", and the timeline of the last sample. All ranks call it alike; rank 0's
/// clock ends it. `on_sample` is called after each sample.
void measure_trial(CollectiveTrial& trial, ProcessGroup& group, const RepeatConfig& repeat,
                   const std::function<void(const Sample&)>& on_sample, RankResult& result);

}  // namespace ddprun
