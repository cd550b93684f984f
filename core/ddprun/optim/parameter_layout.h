// What lies where in the flat buffers, known without their memory: parameters, units, slices.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct BufferDtypes;
enum class KernelSet;
struct NamedTensor;

/// Elements [begin, end) of a flat buffer.
struct Range {
  std::int64_t begin = 0, end = 0;
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
  c10::ScalarType dtype = c10::kFloat;  ///< in which its parameters are gathered to be read
  std::int64_t gathered_bytes = 0;      ///< room for that
  std::vector<int> norms = {};  ///< those that are read in float32 instead, and not gathered
};

/// Parameter i lies at range(i) of every buffer. Index 0 was registered last, because backward
/// completes it first. Each range starts on a 64-byte boundary (in a bfloat16 buffer: 32-byte). The
/// padding between ranges is zero, and no reduction changes that.
class ParameterLayout {
 public:
  /// `parameters` are in registration order. Fused `kernels` read a copy in the products' dtype,
  /// PyTorch's operators do not. `ranks_per_host` 0: all. Throws ConfigError if there is none, a
  /// name appears twice, a unit is in two places, or the dtypes do not fit each other.
  ParameterLayout(const std::vector<NamedTensor>& parameters, const BufferDtypes& dtypes,
                  KernelSet kernels, int ranks, int ranks_per_host = 0);

  int count() const;
  const std::vector<std::string>& names() const;
  const std::string& name(int index) const { return names()[index]; }
  const std::vector<std::int64_t>& sizes(int index) const;  ///< the parameter's shape
  Range range(int index) const;
  /// From the begin of `first` to the end of `last`; from the begin of `index` to that of the next.
  Range range(int first, int last) const { return {range(first).begin, range(last).end}; }
  Range with_padding(int index) const;
  Range all() const { return {0, units().front().range.end}; }
  std::int64_t parameter_count() const;             ///< elements of all parameters, without padding
  std::int64_t gradient_bytes(Range range) const;   ///< as ranks exchange them
  std::int64_t parameter_bytes(Range range) const;  ///< as the optimizer updates them
  bool has_copy() const;                            ///< of the parameters, which products read
  Range copied() const;  ///< what it covers: not the last units, if no product reads them

  const std::vector<Unit>& units() const;  ///< as forward uses them: the first ends the buffers
  int unit_of(int index) const;
  int ranks() const;
  int ranks_per_host() const;
  /// Part `part` of the equal `parts` of `range`, whole units. They divide ranks(); 0: ranks().
  Range slice(Range range, int part, int parts = 0) const;

 protected:
  struct Data;
  std::shared_ptr<const Data> data_;
};

/// How much of a flat buffer a rank holds; sharded: what it owns, and room for units in use.
enum class Placement : std::uint8_t { replicated, sharded, none };

/// What a rank holds of the flat buffers, and what it updates.
struct BufferHolding {
  Placement parameters = Placement::replicated;
  Placement gradients = Placement::replicated;  ///< none: nobody will call backward
  /// Of sharded parameters: every unit has a place of its own, where it may stay.
  bool place_for_each_unit = false;
  /// Of whole parameters: the model may not read a unit before UnitListener::before_unit().
  bool gathered_in_forward = false;
  /// Into how many slices the units are cut. Ranks n k to n k + n - 1 of n have one of each
  /// together, and every n-th rank has the same. 0: as many as there are ranks.
  int shards = 0;
  /// What this rank updates: disjoint, by begin. Empty: everything, as all ranks. A rank that
  /// updates nothing, while others own parts, names one empty range.
  std::vector<Range> owned = {};
};

}  // namespace ddprun
