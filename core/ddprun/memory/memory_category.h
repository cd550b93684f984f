// What a rank's memory is for: measured and predicted figures have the same categories.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "ddprun/base/choice.h"

namespace ddprun {

/// Every byte of a rank has one.
enum class MemoryCategory : std::uint8_t {
  parameters,     // what the optimizer updates
  compute_copy,   // what the model reads instead: copies in another dtype, gathered units
  gradients,      // as backward accumulates them, as ranks exchange them, and their mean
  moments,        // the optimizer's
  saved,          // by a forward for its backward
  forward,        // made and released within a forward
  backward,       // made in a backward
  communication,  // buffers of backends, and of strategies beside the gradients
  workspace,      // of kernels: packed operands, scratch
  data,           // token files, ids and targets
  library,        // the program, its libraries and what they keep for themselves
};
constexpr auto choice_names(MemoryCategory) {
  return std::array{"parameters",
                    "compute copies",
                    "gradients",
                    "moments",
                    "saved for backward",
                    "temporary in forward",
                    "temporary in backward",
                    "communication",
                    "workspace",
                    "data",
                    "library"};
}

/// While it lives, what this thread allocates is of that category. Scopes nest: the innermost
/// counts. Without one, the phase says what it is.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// The innermost one's category on this thread; null: there is none.
  static const MemoryCategory* current();

 private:
  const MemoryScope* const outer_;
  const MemoryCategory category_;
};

/// By category. All zero at first.
class MemoryBytes {
 public:
  std::int64_t& operator[](MemoryCategory category) {
    return bytes_[static_cast<std::size_t>(category)];
  }
  std::int64_t operator[](MemoryCategory category) const {
    return bytes_[static_cast<std::size_t>(category)];
  }
  std::int64_t sum() const {
    return std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0});
  }
  friend bool operator==(const MemoryBytes&, const MemoryBytes&) = default;

 private:
  std::array<std::int64_t, kChoiceNames<MemoryCategory>.size()> bytes_ = {};
};

}  // namespace ddprun
