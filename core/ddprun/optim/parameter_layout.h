// What lies where in the flat buffers, known without their memory: parameters, units, slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct BufferDtypes;
enum class KernelSet;
struct NamedTensor;
class ParameterReads;

/// Elements [begin, end) of a flat buffer.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Parameters that are used together: an embedding, a block or half of one, a head.
struct Unit {
  std::string name;
  int first = 0, last = 0;      ///< its parameters, in the order of the buffers
  Range range = {};             ///< padding included: as many equal slices as there are ranks
  bool used_elsewhere = false;  ///< a later unit uses one of them, too: a tied weight
};

/// Parameter i lies at range(i) of every buffer. Index 0 is the parameter that was registered last,
/// because backward completes it first. Each range starts on a 64-byte boundary (in a bfloat16
/// buffer: 32-byte). The padding between ranges is zero in all buffers, and no reduction changes
/// that.
class ParameterLayout {
 public:
  /// `parameters` are in registration order. `kernels`: fused kernels read a copy in the dtype of
  /// the products, PyTorch's own operators do not. `ranks_per_host` 0: all are on one. Throws
  /// ConfigError if there is no parameter, a name appears twice, a unit is in two places, or the
  /// dtypes do not fit each other.
  ParameterLayout(const std::vector<NamedTensor>& parameters, const BufferDtypes& dtypes,
                  KernelSet kernels, int ranks, int ranks_per_host = 0);

  int count() const { return static_cast<int>(ranges_.size()); }
  const std::string& name(int index) const { return names_[index]; }
  const std::vector<std::string>& names() const { return names_; }
  Range range(int index) const { return ranges_[index]; }
  /// The parameter's shape.
  const std::vector<std::int64_t>& sizes(int index) const { return sizes_[index]; }
  /// From the begin of parameter `first` to the end of parameter `last`, padding between included.
  Range range(int first, int last) const { return {ranges_[first].begin, ranges_[last].end}; }
  /// From the begin of parameter `index` to the begin of the next, or the end of the buffer.
  Range with_padding(int index) const;
  Range all() const { return {0, units_.front().range.end}; }
  /// The number of elements of all parameters, without padding.
  std::int64_t parameter_count() const { return parameter_count_; }

  /// In the order of the forward pass, which is the reverse of the buffers': the first unit ends
  /// them.
  const std::vector<Unit>& units() const { return units_; }
  int unit_of(int index) const { return unit_of_[index]; }

  int ranks() const { return ranks_; }
  /// How many of them are on one host.
  int ranks_per_host() const { return ranks_per_host_; }
  /// Part `part` of the equal `parts` of `range`, which is made of whole units. `parts` divides
  /// ranks(); 0: as many parts as ranks.
  Range slice(Range range, int part, int parts = 0) const;

  std::int64_t gradient_bytes(Range range) const;
  const BufferDtypes& dtypes() const;
  /// In which dtype each parameter is read.
  const ParameterReads& reads() const { return *reads_; }

 private:
  void place(const std::vector<NamedTensor>& parameters);

  std::vector<std::string> names_;
  std::vector<Range> ranges_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  // by parameter
  int ranks_, ranks_per_host_;
  std::shared_ptr<const ParameterReads> reads_;
  std::int64_t parameter_count_ = 0;
};

}  // namespace ddprun
