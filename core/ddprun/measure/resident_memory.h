// The memory of this process that is resident, by what backs it.
#pragma once

#include <cstdint>
#include <istream>
#include <vector>

namespace ddprun {

/// Bytes. A page that n processes share counts as 1/n (PSS): the sum over them has it once.
struct ResidentMemory {
  std::int64_t files = 0;      ///< the program, its libraries, and whatever files it maps
  std::int64_t shared = 0;     ///< files in memory (memfd): segments that ranks share
  std::int64_t heap = 0;       ///< malloc's
  std::int64_t anonymous = 0;  ///< all other: mappings of their own, stacks of threads
  /// Of the heap, resident or not: what malloc has given out. 0: it does not say.
  std::int64_t heap_in_use = 0;

  struct Range {
    std::uintptr_t begin = 0, end = 0;
  };
  std::vector<Range> heap_ranges = {}, shared_ranges = {};

  std::int64_t total() const { return files + shared + heap + anonymous; }
  static bool within(const std::vector<Range>& ranges, const void* address);
};

/// Reads /proc/self/smaps, which takes some milliseconds. All zeros where there is none.
ResidentMemory resident_memory();
/// `smaps`: a text of that form.
ResidentMemory parse_smaps(std::istream& smaps);

/// Of what is resident in this process, what counts for others that share it: RSS - PSS, by
/// /proc/self/smaps_rollup. It takes some milliseconds a GB. 0 where there is none.
std::int64_t shared_resident_bytes();

}  // namespace ddprun
