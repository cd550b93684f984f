// Which unit of the model read a parameter, by the graph that autograd made of a forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "ddprun/optim/flat_buffers.h"

namespace torch::autograd {
struct Node;
}

namespace ddprun {

/// Where parameters are gathered to be used, who reads one outside its unit reads old values, or
/// another unit's. Training thread only.
class UnitReads {
 public:
  /// `buffers` outlives it.
  explicit UnitReads(const FlatBuffers& buffers);

  /// A forward begins.
  void clear() { times_.assign(times_.size(), {}); }
  /// Around each unit that has something to train; `unit` is of buffers.units().
  void begin(int unit);
  void end(int unit);
  /// Throws Error if something of which `loss` was computed read a parameter when it was not there.
  void check(const at::Tensor& loss) const;

 private:
  /// Numbers of autograd's nodes, from the first that a unit made to the next one's behind it.
  struct Time {
    std::uint64_t begin = 0, end = std::numeric_limits<std::uint64_t>::max();
  };
  /// The parameter that gets its gradient there; -1: none.
  int parameter_at(const torch::autograd::Node& node) const;
  bool is_there(int index, std::uint64_t node) const;
  [[noreturn]] void refuse(int index, const torch::autograd::Node& reader) const;

  const FlatBuffers& buffers_;
  bool stays_;                            // what was gathered, until the step ends
  std::vector<std::vector<Time>> times_;  // by unit: of each time that it was computed
  std::unordered_map<const c10::TensorImpl*, int> index_of_;
};

}  // namespace ddprun
