// Which collective is measured, and on what: the YAML section `collectives:`.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

#include "ddprun/comm/group/collective.h"

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

/// Where the buffers lie: in memory that the group allocates (ProcessGroup::allocate), or in a
/// tensor's own.
enum class BufferMemory : std::uint8_t { ordinary, group };
constexpr auto choice_names(BufferMemory) { return std::array{"ordinary", "group"}; }

struct CollectivesConfig {
  CollectiveKind collective = CollectiveKind::all_reduce;
  /// Of the whole tensor, as nccl-tests counts: of an all-gather the output, of a reduce-scatter
  /// the input.
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
  /// Elements of the whole tensor: as many as `bytes` have room for, rounded down to equal slices;
  /// 0 for a barrier.
  std::int64_t elements(std::int64_t ranks) const;
  /// Bytes of all buffers of one rank.
  std::int64_t buffer_bytes(std::int64_t ranks) const;
};

void declare_options(Options& options, CollectivesConfig& config);

}  // namespace ddprun
