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
/// another unit's. It looks at forwards 1, 2, 4, 8 and so on of those that train: going through a
/// graph takes time of the step. Training thread only.
class UnitReads {
 public:
  /// `buffers` outlives it.
  explicit UnitReads(const FlatBuffers& buffers);

  void forward_begins();
  /// Around each unit that has something to train; `unit` is of buffers.units().
  void begin(int unit);
  void end(int unit);
  /// Throws Error if something of which `loss` was computed read a parameter when it was not there.
  void check(const at::Tensor& loss) const;

 private:
  /// Sequence numbers of autograd's nodes: those in [begin, end) were made while it was computed.
  struct Time {
    std::uint64_t begin = 0, end = std::numeric_limits<std::uint64_t>::max();
  };
  /// The parameter that gets its gradient there; -1: none.
  int parameter_at(const torch::autograd::Node& node) const;
  bool is_there(int index, std::uint64_t node) const;
  [[noreturn]] void refuse(int index, const torch::autograd::Node& reader) const;

  const FlatBuffers& buffers_;
  bool stays_;                            // what was gathered, until the step ends
  bool looks_ = false;                    // at the forward under way
  std::uint64_t forwards_ = 0;            // that train
  std::vector<std::vector<Time>> times_;  // by unit: of each time that it was computed
  std::unordered_map<const c10::TensorImpl*, int> index_of_;
};

}  // namespace ddprun
